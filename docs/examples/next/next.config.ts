import type { NextConfig } from 'next'

export default {
  // It reads files of its own when it runs, which a bundle would not have. Next knows that of pg without being told.
  serverExternalPackages: ['pg-lockstep'],
} satisfies NextConfig
