import type { JobFilter, JobSort } from '../store/jobs.ts'
import type { DeadFilter, DeadSort } from '../store/morgue.ts'
import type { FullPage, Page } from '../store/page.ts'
import { checkDeadFilter, checkJobFilter, fullPage, PAGE_KEYS } from './filter.ts'

/** At most one in work and one waiting. */
const ENTRIES_OF_AN_ID = 2
const JOB_SORTS: readonly JobSort[] = ['id', 'performIn', 'retryCount']
const DEAD_SORTS: readonly DeadSort[] = ['id', 'diedAt', 'score']

/** @throws OptionError */
export function jobPage(filter: JobFilter & Page<JobSort>): FullPage<JobSort> {
  checkJobFilter(filter, 'find', PAGE_KEYS)
  const all = filter.ids && filter.ids.length * ENTRIES_OF_AN_ID
  return fullPage(filter, JOB_SORTS, 'performIn', 'find', all)
}

/** @throws OptionError */
export function deadPage(filter: DeadFilter & Page<DeadSort>): FullPage<DeadSort> {
  checkDeadFilter(filter, 'findDead', PAGE_KEYS)
  return fullPage(filter, DEAD_SORTS, 'diedAt', 'findDead')
}
