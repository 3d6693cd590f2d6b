/**
 * What a command ends with; `--help` says so too. `outdated` is EX_TEMPFAIL of sysexits.h: nothing is wrong with the
 * command, and the next release will do.
 */
export const EXIT = { ok: 0, failed: 1, usage: 2, outdated: 75, interrupted: 130, terminated: 143 } as const
