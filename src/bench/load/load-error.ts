// Why a load cannot be run at all.

/** A load that cannot be run: what was asked for, a file, or a server that does not answer at all. */
export class LoadError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'LoadError';
  }
}
