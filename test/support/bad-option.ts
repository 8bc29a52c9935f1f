// Of the programs that scripts/ run.

/** An error about an option of a program, which the script tells in a line: the code is the one that parseArgs has for such. */
export function badOption(message: string): Error {
  return Object.assign(new Error(message), { code: 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE' });
}
