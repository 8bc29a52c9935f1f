// The request log.

export type RequestOutcome = 'completed' | 'refused' | 'failed' | 'cancelled';
export const REQUEST_OUTCOMES: readonly RequestOutcome[] = ['completed', 'refused', 'failed', 'cancelled'];

/**
 * GET …/requests?api_key&model&outcome&request_id&from&to&limit&after, newest first. …/requests.csv has the same
 * parameters except `limit` and `after`. Times are in milliseconds; null if the stage was not reached.
 */
export interface RequestObject {
  id: string;
  request_id: string;
  /** Null if the API key was missing or unknown; only operators see these requests. */
  organization_id: string | null;
  /** When the request ended. */
  at: string;
  received_at: string;
  /** `playground`: a member's request from the dashboard. Null if the key was missing or unknown. */
  api_key_id: string | null;
  model: string | null;
  /** The model name in the request. */
  asked_model: string | null;
  method: string | null;
  /** The route's path, or the requested path if no route matches it. */
  endpoint: string;
  stream: boolean;
  /** Null if the client had disconnected. */
  status: number | null;
  outcome: RequestOutcome;
  code: string | null;
  /** The error message, and the parameter that it names. */
  message: string | null;
  param: string | null;
  client_address: string | null;
  user_agent: string | null;
  trace_id: string | null;
  finish_reason: string | null;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  images: number;
  queue_ms: number | null;
  /** Time from the request's arrival to the first token. */
  first_token_ms: number | null;
  duration_ms: number;
  has_text: boolean;
}
/** GET …/requests/{id} */
export interface RequestDetail extends RequestObject {
  /** Phases in order: reading, validating and rendering; queueing; vision encoding, if any; prefill; decoding. */
  phases: {
    prepare_ms: number | null;
    queue_ms: number | null;
    tower_ms: number | null;
    prefill_ms: number | null;
    decode_ms: number | null;
  };
  parameters: Record<string, string | number | boolean> | null;
  /**
   * Link to the request's trace, for operators only. Null if there is no trace or the setting telemetry.traces.view_url
   * is not set.
   */
  trace_url: string | null;
  /** The prompt and response, if the organization stores them. Visible to admins only. */
  text: {
    prompt: { role: string; text: string }[];
    answer: { choice: number; section: 'reasoning' | 'content' | 'call'; text: string }[];
    cut: boolean;
    /**
     * The first difference between this prompt and the earlier prompt used for comparison. `at`: number of equal tokens
     * before the difference.
     */
    difference: { at: number; before: string; earlier: string; current: string } | null;
  } | null;
}
