// How much of the prompts of each model and organization came from memory and from disk. Worker thread only.

/** Limits the memory. Further pairs of a model and an organization are counted under the organization ''. */
const MAX_PAIRS = 10_000;

/** Totals since the process started. */
export interface CacheUse {
  readonly file: string;
  readonly organization: string;
  requests: number;
  promptTokens: number;
  memoryTokens: number;
  diskTokens: number;
  readBytes: number;
  writtenBytes: number;
  /** Time that computing the cached tokens would have taken, in ms. */
  savedMs: number;
}

interface Counted extends CacheUse {
  /** Cached tokens whose time is not yet part of `savedMs`, because it is not known. */
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

  /** `tokenMs`: the estimated time to compute a token of a model file, in ms; 0: not known. */
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
