// For the command-line programs in scripts/.

/**
 * Creates an error about an invalid command-line option. The scripts print such an error as one line; they recognize it
 * by the error code that parseArgs uses.
 */
export function badOption(message: string): Error {
  return Object.assign(new Error(message), { code: 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE' });
}
