// What threads tell each other, and operators, of a model that is being fetched. Types only.

/** A model on its way from the hub. */
export interface ModelPull {
  id: string;
  model: string;
  state: 'running' | 'done' | 'failed' | 'stopped';
  /** What was chosen, and the file that comes; null before that is known. */
  quantization: string | null;
  file: string | null;
  bytes: number;
  total_bytes: number | null;
  error: string | null;
  started_at: string;
  ended_at: string | null;
}
