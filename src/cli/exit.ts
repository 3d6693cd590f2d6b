/**
 * The exit codes, which `--help` lists too. `outdated` is EX_TEMPFAIL of sysexits.h: the command itself is right, and
 * will succeed with the next release.
 */
export const EXIT = { ok: 0, failed: 1, usage: 2, outdated: 75, interrupted: 130, terminated: 143 } as const
