// Models, and the models in the download cache.

/** GET …/models: the models that the organization may use, highest tier first. */
export interface DashboardModel {
  id: string;
  /** A LoRA adapter's base model; null if this is not an adapter. */
  adapter_of: string | null;
  display_name: string;
  lifecycle: 'active' | 'deprecated' | 'retired';
  /** Whether this is a demonstration model that is not meant for real work. */
  demonstration: boolean;
  /** `idle`: unloaded because it was not used; the next request loads it. */
  state: 'loading' | 'ready' | 'failed' | 'idle' | 'unloaded';
  /** 0 to 1 while loading. */
  load_progress: number | null;
  context_window: number;
  max_output_tokens: number;
  /** The model's output type. Null until the model has been loaded. */
  task: 'generation' | 'embedding' | 'ranking' | null;
  /** Vector lengths that an embedding model supports, longest first. */
  embedding_dimensions: number[] | null;
  input_modalities: string[];
  reasoning_efforts: string[];
  default_reasoning_effort: string;
  sampling_defaults: Record<string, number>;
  deprecated_at: string | null;
  retires_at: string | null;
  successor: string | null;
  file_bytes: number | null;
  parameters: number | null;
  quantization: string | null;
  architecture: string | null;
  /** Number of upstream servers; null for a local model. */
  upstream: number | null;
}

/** POST …/operator/models: serves a downloaded model, including after restarts. */
export interface OperatorServe {
  name: string;
  model: string;
  display_name?: string | null;
  idle_minutes?: number | null;
}
export interface OperatorModel extends DashboardModel {
  /** OWNER/REPO:QUANTIZATION of a model served by an operator; null for a configured model. */
  source: string | null;
  /** Why the model failed to load. */
  problem: string | null;
}

/** A model in the hub's cache. */
export interface DiskModel {
  /** OWNER/REPO:QUANTIZATION */
  model: string;
  path: string;
  file_bytes: number;
  /** Whether the model's revision is no longer the head of the hub's branch. */
  is_old: boolean;
  architecture: string | null;
  parameters: number | null;
  /** Memory required to load the model; null if it cannot be loaded (see `problem`). */
  memory_bytes: number | null;
  /** Breakdown of memory_bytes: weights, keys and values, recurrent states, activations. */
  memory_plan: { weights: number; kv: number; states: number; activations: number } | null;
  /**
   * Whether the machine has this much memory. yes: it is available; later: it is currently in use; no: the machine has
   * less.
   */
  fits: 'yes' | 'later' | 'no' | null;
  problem: string | null;
  served_as: string | null;
}

/** GET …/operator/disk. */
export interface DiskState {
  object: 'disk';
  endpoint: string;
  folder: string;
  /** Null if the directory does not exist yet. */
  free_bytes: number | null;
  memory_bytes: number;
  available_memory_bytes: number;
  models: DiskModel[];
  pulls: ModelPull[];
}

/** GET …/operator/hub/models?q=TEXT (a ListPage): a repository on the hub with GGUF files, most downloads first. */
export interface HubModel {
  /** OWNER/REPO */
  model: string;
  downloads: number;
  likes: number;
  updated_at: string | null;
  /** Whether the repository's terms must be accepted on the hub before it can be downloaded. */
  gated: boolean;
}

/** DELETE …/operator/disk?model=OWNER/REPO:QUANTIZATION */
export interface DiskRemoval {
  model: string;
  freed_bytes: number;
}

/** PATCH …/models/{id} */
export interface OperatorModelPatch {
  lifecycle?: 'active' | 'deprecated' | 'retired';
  deprecated_at?: string | null;
  retires_at?: string | null;
  successor?: string | null;
}

/** A model being downloaded from the hub. */
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
