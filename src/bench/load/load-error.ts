/** Thrown if a load test cannot run because of invalid settings, an unusable file, or an unresponsive server. */
export class LoadError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'LoadError';
  }
}
