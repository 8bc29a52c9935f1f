// For the command-line programs in scripts/.

/**
 * Creates an error for an invalid command-line option. The scripts recognize it by its code, which is the one that
 * parseArgs uses, and print it as one line.
 */
export function badOption(message: string): Error {
  return Object.assign(new Error(message), { code: 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE' });
}
