// Counts cached prompt tokens, in memory and on disk, by model file and organization. Worker thread only.

/**
 * Maximum number of pairs of a model file and an organization, to limit memory. Further pairs are counted under the
 * organization ''.
 */
const MAX_PAIRS = 10_000;

/** Prompt-cache totals of one model file and organization since the process started. */
export interface CacheUse {
  readonly file: string;
  readonly organization: string;
  requests: number;
  promptTokens: number;
  memoryTokens: number;
  diskTokens: number;
  readBytes: number;
  writtenBytes: number;
  /** Estimated prefill time that the cached tokens saved, in ms. */
  savedMs: number;
}

interface Counted extends CacheUse {
  /** Number of cached tokens that `savedMs` does not include yet, because the prefill time per token was not known. */
  untimedTokens: number;
}

export class CacheTally {
  readonly #all = new Map<string, Counted>();

  started(
    file: string,
    organization: string,
    tokens: { readonly prompt: number; readonly cached: number; readonly disk: number },
  ): void {
    const one = this.#of(file, organization);
    const disk = Math.min(tokens.disk, tokens.cached);
    one.requests++;
    one.promptTokens += tokens.prompt;
    one.memoryTokens += tokens.cached - disk;
    one.diskTokens += disk;
    one.untimedTokens += tokens.cached;
  }
  read(file: string, organization: string, bytes: number): void {
    this.#of(file, organization).readBytes += bytes;
  }
  written(file: string, organization: string, bytes: number): void {
    this.#of(file, organization).writtenBytes += bytes;
  }

  /**
   * Returns all totals. `tokenMs`: returns the estimated prefill time per token of a model file in ms, or 0 if it is
   * not known.
   */
  uses(tokenMs: (file: string) => number): CacheUse[] {
    return [...this.#all.values()].map((one) => {
      const ms = tokenMs(one.file);
      if (ms > 0) {
        one.savedMs += ms * one.untimedTokens;
        one.untimedTokens = 0;
      }
      const { untimedTokens: _, ...use } = one;
      return use;
    });
  }

  #of(file: string, organization: string): Counted {
    const known = this.#all.get(`${file}\n${organization}`);
    if (known !== undefined) return known;
    if (this.#all.size >= MAX_PAIRS && organization !== '') return this.#of(file, '');
    const added: Counted = {
      file,
      organization,
      requests: 0,
      promptTokens: 0,
      memoryTokens: 0,
      diskTokens: 0,
      readBytes: 0,
      writtenBytes: 0,
      savedMs: 0,
      untimedTokens: 0,
    };
    this.#all.set(`${file}\n${organization}`, added);
    return added;
  }
}
