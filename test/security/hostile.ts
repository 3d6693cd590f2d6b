/** Text with a meaning in SQL, a shell, templates, a terminal, JSON, CSV or JavaScript. Here all of it is data. */
export const HOSTILE: readonly string[] = [
  `'; DROP TABLE lockstep.jobs; --`,
  `"; DROP SCHEMA lockstep CASCADE; --`,
  `' OR ''='`,
  '$$; SELECT 1; $$',
  '$1',
  '$&',
  '@schema@',
  '@channel@',
  '\\',
  `\\'; --`,
  '%s %I %L %n %',
  '%_%',
  'two\nlines\r\nand\tmore',
  '\u001b]0;owned\u0007',
  '\u001b[2J\u001b[H\u001b[31m',
  '\u009b2J\u0085\u0090',
  '\u0001\u0008\u007f',
  'abc\u202edef\u2066',
  '\u2028\u2029',
  '\u200b\u200d\ufeff',
  '__proto__',
  'constructor',
  'toString',
  '{"id":"x"}\n{"id":"y"}',
  '"quoted"',
  '=HYPERLINK("https://example.com";"x")',
  '{a,b}',
  '{}',
  '{NULL}',
  'NULL',
  'null',
  ' ',
  '-1',
  '--all',
  'Infinity',
  'e\u0301',
  '\u00e9',
  '😀',
]

/**
 * What no terminal may get: C0 except line break and tab, C1, line separators, and characters that change the reading
 * direction.
 */
export const RAW = /(?![\n\t])[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u
