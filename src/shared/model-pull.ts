// The state of a model download, exchanged between threads and shown to operators. Types only.

/** A model download from the hub. */
export interface ModelPull {
  id: string;
  model: string;
  state: 'running' | 'done' | 'failed' | 'stopped';
  /** The selected quantization and the current file; null until they are known. */
  quantization: string | null;
  file: string | null;
  bytes: number;
  total_bytes: number | null;
  error: string | null;
  started_at: string;
  ended_at: string | null;
}
