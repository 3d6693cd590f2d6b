import { defineQueue } from 'pg-lockstep'

export const stuck = defineQueue('stuck', {
  perform() {
    console.log('began')
    return new Promise(() => {})
  },
})
