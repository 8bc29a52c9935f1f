// Errors for invalid options of the command-line programs in scripts/.

/**
 * Creates an error for an invalid command-line option. The error has the code that parseArgs uses, so the scripts print
 * it as one line.
 */
export function badOption(message: string): Error {
  return Object.assign(new Error(message), { code: 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE' });
}
