// Every JSON shape of the dashboard API and the operator API, declared once. The server sends them, and the dashboard
// imports them as types only, so no server code gets into the page. Names and fields follow models-and-accounts.md,
// sections 5 and 6, and extend them where those are silent. Times are RFC 3339, money is a number next to the
// currency's text, lists are ListPage.

import type { TuneSettings } from './tuning.js';

/** Query parameters: `limit` 1 … 100 (20), `after`: the `next` of the previous page. */
export interface ListPage<T> {
  object: 'list';
  data: T[];
  has_more: boolean;
  next: string | null;
}

export type Role = 'owner' | 'admin' | 'developer' | 'viewer';
/** In ascending order: a role has all permissions of those before it. */
export const ROLES: readonly Role[] = ['viewer', 'developer', 'admin', 'owner'];

export interface UserObject {
  id: string;
  email: string;
  name: string;
  email_verified: boolean;
  /** May see the operator's pages; the first user is an operator. */
  operator: boolean;
  /** Each sign-in requires a code. */
  second_factor: boolean;
  /** False for users who signed up through the OpenID provider and set none. */
  has_password: boolean;
  created_at: string;
  last_login_at: string | null;
}

export interface OrganizationObject {
  id: string;
  name: string;
  status: 'active' | 'suspended';
  created_at: string;
  /** Effective limits of the organization by model name. Read-only for members. */
  limits: Record<string, LimitValues>;
  /** Prompts and responses are stored in the request log. */
  request_text: boolean;
}

/** Null: the limit is off. */
export interface LimitValues {
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
}
/** By model name or `*`. Absent limits are inherited from the more general level. */
export type LimitOverrides = Record<string, Partial<LimitValues>>;

export interface MembershipObject {
  organization_id: string;
  user_id: string;
  role: Role;
  created_at: string;
}
export interface MemberObject extends MembershipObject {
  email: string;
  name: string;
  last_login_at: string | null;
}

export interface InviteObject {
  id: string;
  organization_id: string;
  email: string;
  role: Role;
  expires_at: string;
  created_at: string;
  state: 'pending' | 'accepted' | 'revoked' | 'expired';
  /** Link to accept the invitation. Shown to the inviting user, because there may be no mail; only while pending. */
  url: string | null;
}

/** GET /dashboard/api/invites/{token}: the invitation, readable by anyone with the link. */
export interface InvitePreview {
  organization: { id: string; name: string };
  email: string;
  role: Role;
  expires_at: string;
}

export interface SessionObject {
  id: string;
  user_id: string;
  created_at: string;
  last_seen_at: string;
  expires_at: string;
  ip: string;
  user_agent: string;
  /** The session of this request. */
  current: boolean;
}

export type KeyScope = 'inference' | 'responses.read' | 'responses.delete' | 'models.read' | 'tokens.count';

export interface ApiKeyObject {
  id: string;
  organization_id: string;
  created_by: string | null;
  name: string;
  prefix: string | null;
  last4: string;
  status: 'active' | 'expired' | 'revoked';
  models: string[];
  scopes: KeyScope[];
  limits: LimitOverrides | null;
  expires_at: string | null;
  last_used_at: string | null;
  created_at: string;
  revoked_at: string | null;
  rotated_from: string | null;
}
/** The only response that contains the secret. */
export interface CreatedApiKey extends ApiKeyObject {
  secret: string;
}

export interface AuditEntry {
  id: string;
  at: string;
  /** Id and e-mail address of a user; null for the operator API and the command line. */
  actor: { type: 'user' | 'operator_api' | 'command_line'; id: string | null; email: string | null };
  /** `api_key.created`, `member.role_changed`, `organization.limits_changed`, … */
  action: string;
  target: string | null;
  ip: string | null;
  detail: Record<string, unknown>;
}

/** POST …/login: signed in, or a ticket for POST …/login/code. */
export type LoginAnswer = { user: UserObject } | { second_factor: { ticket: string; expires_at: string } };

/** GET …/second-factor */
export interface SecondFactorState {
  enabled: boolean;
  since: string | null;
  recovery_codes_left: number;
  /** True for operators if the setting requires it. */
  required: boolean;
}
/** POST …/second-factor/begin: the secret for an authenticator app, as text and as the content of its QR code. */
export interface SecondFactorProposal {
  secret: string;
  uri: string;
}
/** The only responses that contain recovery codes. */
export interface RecoveryCodes {
  recovery_codes: string[];
}

/** POST …/email/change. `confirmation_sent` is false if the address was changed immediately. */
export interface EmailChange {
  email: string;
  confirmation_sent: boolean;
}

/** GET /dashboard/api/me */
export interface Me {
  user: UserObject;
  /** An operator who must turn on the second factor before the operator pages open. */
  second_factor_missing: boolean;
  /** The user can sign in through the OpenID provider. */
  oidc_linked: boolean;
  csrf_token: string;
  organizations: { id: string; name: string; status: 'active' | 'suspended'; role: Role }[];
}

/** GET /dashboard/api/status: for the page before sign-in. */
export interface DashboardStatus {
  version: string;
  /** No user exists yet: the first to sign up becomes the operator. */
  first_user: boolean;
  /**
   * open: anyone; invited: only with an invitation; setup_code: the first user, with the code that the server prints
   * when it starts.
   */
  signup: 'open' | 'invited' | 'setup_code';
  /** The OpenID provider for sign-in; null without one. */
  oidc: { name: string } | null;
  /** Mail can be sent, so forgotten passwords can be reset by link. */
  mail: boolean;
  signed_in: boolean;
}

export interface BucketUse {
  limit: number | null;
  remaining: number | null;
  reset_ms: number | null;
}
/** GET …/limits: one entry per served model, highest tier first. */
export interface LimitsObject {
  object: 'limits';
  models: {
    model: string;
    requests: BucketUse;
    tokens: BucketUse;
    concurrency: { limit: number | null; in_use: number };
  }[];
  month: { tokens: number; cap: number | null; resets_at: string };
}

export type UsageBucket = 'hour' | 'day';
export type UsageGroup = 'model' | 'api_key' | 'endpoint';

/** Fields that are not grouped by are null. */
export interface UsageRowObject {
  bucket_start: string;
  model: string | null;
  api_key_id: string | null;
  endpoint: string | null;
  requests: number;
  errors: number;
  rate_limited: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  images: number;
  /**
   * Requests that produced output: their number, and the sums of their time to first token, total time and decode time,
   * in milliseconds.
   */
  answered: number;
  first_token_ms: number;
  duration_ms: number;
  decode_ms: number;
  /** At today's prices, in their currency; null: none of the models has a price. */
  cost: number | null;
}
/** Per million tokens. */
export interface ModelPrice {
  input: number;
  cached_input: number;
  output: number;
}
/**
 * GET, PUT …/operator/prices, GET …/organizations/{org}/prices. `currency` is display text; empty `models`: there are
 * no prices.
 */
export interface PriceTable {
  currency: string;
  models: Record<string, ModelPrice>;
}
/**
 * GET, PUT …/organizations/{org}/budget. `amount` null: no budget; `spent` null: there are no prices. Webhook URL and
 * secret are visible only to admins.
 */
export interface BudgetObject {
  amount: number | null;
  spent: number | null;
  currency: string;
  month: string;
  mail: boolean;
  webhook_url: string | null;
  webhook_secret: string | null;
}
/** GET …/usage?from&to&bucket&group_by&models&api_keys&limit&after */
export interface UsagePage {
  object: 'list';
  data: UsageRowObject[];
  next_page: string | null;
  has_more: boolean;
}

export type RequestOutcome = 'completed' | 'refused' | 'failed' | 'cancelled';
export const REQUEST_OUTCOMES: readonly RequestOutcome[] = ['completed', 'refused', 'failed', 'cancelled'];

/**
 * GET …/requests?api_key&model&outcome&limit&after, newest first. Times in milliseconds; null: this stage was not
 * reached.
 */
export interface RequestObject {
  id: string;
  request_id: string;
  organization_id: string;
  /** End of the request. */
  at: string;
  /** `playground`: a member's request from the dashboard. */
  api_key_id: string;
  model: string | null;
  endpoint: string;
  stream: boolean;
  /** Null: the client had disconnected. */
  status: number | null;
  outcome: RequestOutcome;
  code: string | null;
  finish_reason: string | null;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  reasoning_tokens: number;
  images: number;
  queue_ms: number | null;
  /** From arrival to the first token. */
  first_token_ms: number | null;
  duration_ms: number;
  has_text: boolean;
}
/** GET …/requests/{id} */
export interface RequestDetail extends RequestObject {
  received_at: string;
  /** In order: reading, validating and rendering; queueing; vision encoding, if any; prefill; decoding. */
  phases: {
    prepare_ms: number | null;
    queue_ms: number | null;
    tower_ms: number | null;
    prefill_ms: number | null;
    decode_ms: number | null;
  };
  parameters: Record<string, string | number | boolean> | null;
  /** Visible to admins, if the organization stores it. */
  text: {
    prompt: { role: string; text: string }[];
    answer: { choice: number; section: 'reasoning' | 'content' | 'call'; text: string }[];
    cut: boolean;
  } | null;
}

/** GET …/responses: without content. */
export interface StoredResponseObject {
  id: string;
  model: string;
  status: string;
  background: boolean;
  created_at: string;
  expires_at: string;
}

/** One item of a conversation. `cut`: the text is truncated. */
export interface ConversationItem {
  kind: 'message' | 'reasoning' | 'call' | 'result' | 'other';
  role: string | null;
  name: string | null;
  text: string;
  cut: boolean;
  images: number;
}
export interface ConversationTurn {
  id: string;
  model: string;
  status: string;
  created_at: string;
  input: ConversationItem[];
  output: ConversationItem[];
}
/** GET …/responses/{id}: with all preceding responses, oldest first. `earlier`: number of older ones not included. */
export interface StoredConversation {
  object: 'conversation';
  turns: ConversationTurn[];
  earlier: number;
}

/** GET …/models: the models the organization can use, highest tier first. */
export interface DashboardModel {
  id: string;
  display_name: string;
  lifecycle: 'active' | 'deprecated' | 'retired';
  /** A demonstration model, not for real work. */
  demonstration: boolean;
  /** `idle`: unloaded because it was not used; loaded on the next request. */
  state: 'loading' | 'ready' | 'failed' | 'idle' | 'unloaded';
  /** 0 … 1 while loading. */
  load_progress: number | null;
  context_window: number;
  max_output_tokens: number;
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
  /** Number of upstream servers; null: the model runs here. */
  upstream: number | null;
}

/** GET …/usage/latency: latencies of requests with output over a whole time range, in milliseconds. */
export interface UsageLatency {
  object: 'list';
  /** Maximum relative error of a percentile. */
  relative_error: number;
  /** `model` and `api_key_id`: null if not grouped by them. */
  data: {
    model: string | null;
    api_key_id: string | null;
    answered: number;
    first_token_ms: LatencyPercentiles | null;
    duration_ms: LatencyPercentiles | null;
  }[];
}
export interface LatencyPercentiles {
  p50: number;
  p90: number;
  p99: number;
}

/** GET …/playground/image: how a model processes an image of this size. */
export interface DashboardImagePlan {
  width: number;
  height: number;
  /** Prompt tokens. */
  tokens: number;
  /** Tile grid; 1 x 1: a single piece; 0 x 0: a single piece that counts as an overview. */
  columns: number;
  rows: number;
  /** In the order in which the model reads them; sizes in pixels passed to the vision encoder. */
  pieces: readonly { part: 'image' | 'tile' | 'overview'; width: number; height: number }[];
}

/** A stored turn of the playground; images are not stored. `columns`: several if models were compared. */
export type SavedTurn =
  | { kind: 'user'; text: string }
  | {
      kind: 'answer';
      model: string;
      text: string;
      reasoning: string;
      finish_reason: string | null;
      calls: { id: string; name: string; arguments: string }[];
      results: Record<string, string>;
      usage: { prompt: number; cached: number; completion: number; reasoning: number } | null;
      /** Milliseconds from the request to the first token, and to the end. */
      first_ms: number | null;
      total_ms: number | null;
    };
export interface SavedContent {
  settings: Record<string, string>;
  columns: { model: string; turns: SavedTurn[] }[];
}

/** …/organizations/{org}/playground/saved. A single item also has `content`. */
export interface SavedItem {
  id: string;
  kind: 'preset' | 'conversation';
  name: string;
  /** Visible to the organization's members. */
  shared: boolean;
  own: boolean;
  /** The owner's name. */
  by: string;
  created_at: string;
  expires_at: string | null;
}

// ---- operator ----

/** POST …/operator/models: serves a downloaded model from now on and after every start. */
export interface OperatorServe {
  name: string;
  model: string;
  display_name?: string | null;
  idle_minutes?: number | null;
}
export interface OperatorModel extends DashboardModel {
  /** OWNER/REPO:QUANTIZATION of a model served by an operator; null: a model from the settings. */
  source: string | null;
  /** Why it failed to load. */
  problem: string | null;
}

/** A model in the hub's cache. */
export interface DiskModel {
  /** OWNER/REPO:QUANTIZATION */
  model: string;
  path: string;
  file_bytes: number;
  /** The model's revision is no longer the head of the hub's branch. */
  is_old: boolean;
  architecture: string | null;
  parameters: number | null;
  /** Memory that a load would take; null: it cannot be loaded, see `problem`. */
  memory_bytes: number | null;
  /** Whether the memory is available: yes, now; later, not at the moment; no, the machine has less. */
  fits: 'yes' | 'later' | 'no' | null;
  problem: string | null;
  served_as: string | null;
}

/** GET …/operator/disk. */
export interface DiskState {
  object: 'disk';
  endpoint: string;
  folder: string;
  /** Null if the folder does not exist yet. */
  free_bytes: number | null;
  memory_bytes: number;
  available_memory_bytes: number;
  models: DiskModel[];
  pulls: ModelPull[];
}

/** One engine at one moment. Rates cover the interval since the previous sample. */
export interface EngineSample {
  /** The first of the engine's names. */
  model: string;
  names: string[];
  running: number;
  waiting: number;
  /** Mean tokens per step over the interval: decode tokens plus prefill chunks. */
  batch_rows: number;
  pages_total: number;
  pages_free: number;
  pages_cached: number;
  /** Fraction of prompt tokens found in the prefix cache, 0 … 1; null without prompts in the interval. */
  prefix_hit_rate: number | null;
  /** Mean milliseconds per step over the interval; null without a step. */
  step_ms: number | null;
  steps_per_s: number;
  prefill_tokens_per_s: number;
  decode_tokens_per_s: number;
  /** Milliseconds, over the last 60 seconds; null without data. */
  ttft_ms: Percentiles | null;
  itl_ms: Percentiles | null;
  preemptions: number;
}
export interface Percentiles {
  p50: number;
  p95: number;
  p99: number;
  count: number;
}

/**
 * One per second. GET …/operator/live is an event stream: `history` (LiveSample[]) once, then `sample` (LiveSample).
 */
export interface LiveSample {
  at: string;
  engines: EngineSample[];
  /**
   * Requests since the previous sample, by outcome, including errors within a stream. errors: internal errors, and
   * responses that were cut off.
   */
  requests: number;
  rejected_429: number;
  rejected_503: number;
  errors: number;
  cancelled: number;
  in_flight: number;
  rss_bytes: number;
  loop_lag_ms: number;
  http_threads: number;
  viewers: number;
}

/** An operator's change that affects the engines. */
export interface LiveMark {
  at: string;
  action: string;
  target: string | null;
  by: string | null;
}
/**
 * GET …/operator/live/history?from&to: samples that each cover `step_s` seconds from `at` on. Values are means, except
 * memory, lag and preemptions, which are maximums.
 */
export interface LiveHistory {
  object: 'live_history';
  from: string;
  to: string;
  step_s: number;
  samples: LiveSample[];
  marks: LiveMark[];
}
/**
 * GET …/operator/live/keys?from&to&organization: the traffic of each organization, or of each key of one, largest
 * first; the last series may be `other`. Each value is the sum over `step_s` seconds from the corresponding entry of
 * `times`.
 */
export interface LiveKeys {
  object: 'live_keys';
  step_s: number;
  times: string[];
  series: {
    id: string;
    name: string;
    requests: number[];
    refused: number[];
    input_tokens: number[];
    output_tokens: number[];
  }[];
}

/**
 * GET …/operator/tunables (a ListPage), GET, PATCH …/operator/tunables/{model}, by any of its names: settings that can
 * be changed at run time. They take effect with the engine's next step.
 */
export interface Tunable {
  name: TunableName;
  value: number;
  default: number;
  min: number;
  max: number;
  help: string;
  /**
   * The flag, variable or file key that set the default at this start. A change then lasts only until the next start
   * that sets it.
   */
  given: string | null;
}
export type TunableName = 'max_batch_tokens' | 'max_sequences' | 'step_ms' | 'queue_max' | 'queue_max_tokens';
export interface EngineTunables {
  model: string;
  names: string[];
  tunables: Tunable[];
  /**
   * End of the lease while settings are being tried on this engine. The settings in force are temporary and are
   * reverted then, unless the lease is renewed.
   */
  held_until: string | null;
}
/**
 * PUT …/operator/tunables/{model}/hold. `is_new`: starts a lease, otherwise renews it. Returns EngineTunables. DELETE
 * ends it (`id` in the query).
 */
export interface EngineHoldRequest {
  id: string;
  is_new: boolean;
  seconds: number;
  values: TuneSettings;
}
/** Null: back to the setting from the server's start. Absent: unchanged. Returns EngineTunables. */
export type EngineTunablesPatch = Partial<Record<TunableName, number | null>>;

export interface OperatorOrganization extends OrganizationObject {
  members: number;
  active_keys: number;
  overrides: LimitOverrides;
  monthly_token_cap: number | null;
  month_tokens: number;
}
/** PATCH …/organizations/{org} */
export interface OperatorOrganizationPatch {
  status?: 'active' | 'suspended';
  limits?: LimitOverrides;
  monthly_token_cap?: number | null;
}

export interface OperatorUser extends UserObject {
  locked: boolean;
  organizations: { id: string; name: string; role: Role }[];
}
export interface OperatorUserPatch {
  locked?: boolean;
  operator?: boolean;
}

/** PATCH …/models/{id} */
export interface OperatorModelPatch {
  lifecycle?: 'active' | 'deprecated' | 'retired';
  deprecated_at?: string | null;
  retires_at?: string | null;
  successor?: string | null;
}

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
