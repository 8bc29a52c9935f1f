// The status that a running server reports to commands on its socket in the data directory (monolith ps, rm and run).

export interface LocalModel {
  /** Public names; models that share a file share one entry. */
  readonly names: readonly string[];
  /** Public names of the LoRA adapters of these models. */
  readonly adapters: readonly string[];
  /** The file or directory; null for an upstream model. */
  readonly file: string | null;
  readonly state: 'loading' | 'ready' | 'elsewhere' | 'failed' | 'idle' | 'unloaded';
  /** While loading: from 0 to 1. */
  readonly progress: number | null;
  /** Why the model cannot be served. */
  readonly problem: string | null;
  /** For a loaded model: weights, KV cache pages in use, recurrent state and working buffers. */
  readonly memory_bytes: number | null;
  /** For a loaded model: maximum memory, with a full KV cache. */
  readonly max_memory_bytes: number | null;
  readonly device: string | null;
  readonly context: number | null;
  /** Number of running sequences, their maximum number, and number of waiting requests. */
  readonly running: number;
  readonly max_running: number | null;
  readonly waiting: number;
}

export interface LocalStatus {
  readonly pid: number;
  readonly version: string;
  readonly url: string;
  readonly uptime_s: number;
  readonly models: readonly LocalModel[];
}
