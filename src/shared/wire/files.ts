// JSON of files and batches in the dashboard API.

export interface FileListItem {
  readonly id: string;
  readonly filename: string;
  readonly purpose: string;
  readonly media_type: string;
  readonly bytes: number;
  readonly created_at: string;
  readonly expires_at: string;
}

/** The API used to create the batch. */
export const BATCH_KINDS = ['openai', 'messages'] as const;

export type BatchState =
  | 'validating'
  | 'failed'
  | 'in_progress'
  | 'finalizing'
  | 'completed'
  | 'expired'
  | 'cancelling'
  | 'cancelled';

export interface BatchListItem {
  readonly id: string;
  readonly kind: (typeof BATCH_KINDS)[number];
  readonly endpoint: string;
  /** Null if not known yet, or if the requests may name different models. */
  readonly model: string | null;
  readonly status: BatchState;
  /** Number of requests; 0 while the batch is being validated. */
  readonly total: number;
  readonly counts: {
    readonly succeeded: number;
    readonly errored: number;
    readonly canceled: number;
    readonly expired: number;
  };
  readonly created_at: string;
  readonly expires_at: string;
  readonly ended_at: string | null;
  /** Null if the batch has no such file or the file no longer exists. */
  readonly input_file_id: string | null;
  readonly output_file_id: string | null;
  readonly error_file_id: string | null;
  /** The first reason why the input file is invalid. */
  readonly problem: string | null;
}
