// Every JSON shape of the dashboard API and the operator API, declared once: the server sends them and the
// page reads them (as types only, so nothing of the server gets into the page). Names and fields as the
// contract's models-and-accounts.md sections 5 and 6 have them; what it leaves open is decided here.
// Times are RFC 3339, money is a number beside a currency's text, lists are ListPage.

import type { ModelPull } from '../model-pull.js';
import type { TuneSettings } from './tuning.js';

export type { ModelPull };

/** `limit` 1 … 100 (20), `after`: the `next` of the page before. */
export interface ListPage<T> {
  object: 'list';
  data: T[];
  has_more: boolean;
  next: string | null;
}

export type Role = 'owner' | 'admin' | 'developer' | 'viewer';
/** Least first: a role may do all that those before it may. */
export const ROLES: readonly Role[] = ['viewer', 'developer', 'admin', 'owner'];

export interface UserObject {
  id: string;
  email: string;
  name: string;
  email_verified: boolean;
  /** May see the operator's pages: the first user is one. */
  operator: boolean;
  /** A code is asked for at each sign-in. */
  second_factor: boolean;
  /** Somebody who came by the provider may have none. */
  has_password: boolean;
  created_at: string;
  last_login_at: string | null;
}

export interface OrganizationObject {
  id: string;
  name: string;
  status: 'active' | 'suspended';
  created_at: string;
  /** By model name: what holds for the organization. Read-only for members. */
  limits: Record<string, LimitValues>;
  /** Prompts and answers are kept in the request log. */
  request_text: boolean;
}

/** Null: the limit is off. */
export interface LimitValues {
  rpm: number | null;
  tpm: number | null;
  concurrency: number | null;
}
/** Absent: what is more general holds. By model name or `*`. */
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
  /** Where the invited person signs up or in; shown to who invites, because there may be no mail. Only while pending. */
  url: string | null;
}

/** GET /dashboard/api/invites/{token}: what its link tells whoever has it. */
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
  /** Of this very request. */
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
/** The only answer that has the secret. */
export interface CreatedApiKey extends ApiKeyObject {
  secret: string;
}

export interface AuditEntry {
  id: string;
  at: string;
  /** A user's id and address; the operator API and the command line have none. */
  actor: { type: 'user' | 'operator_api' | 'command_line'; id: string | null; email: string | null };
  /** `api_key.created`, `member.role_changed`, `organization.limits_changed`, … */
  action: string;
  target: string | null;
  ip: string | null;
  detail: Record<string, unknown>;
}

/** POST …/login: signed in, or the ticket with which POST …/login/code goes on. */
export type LoginAnswer = { user: UserObject } | { second_factor: { ticket: string; expires_at: string } };

/** GET …/second-factor */
export interface SecondFactorState {
  enabled: boolean;
  since: string | null;
  recovery_codes_left: number;
  /** Of an operator, where the setting asks it of them. */
  required: boolean;
}
/** POST …/second-factor/begin: for an authenticator app, as text and as what its QR code says. */
export interface SecondFactorProposal {
  secret: string;
  uri: string;
}
/** The only answers that have them. */
export interface RecoveryCodes {
  recovery_codes: string[];
}

/** POST …/email/change. Not sent: the address is changed already. */
export interface EmailChange {
  email: string;
  confirmation_sent: boolean;
}

/** GET /dashboard/api/me */
export interface Me {
  user: UserObject;
  /** An operator who has to turn the second factor on before the operator pages open. */
  second_factor_missing: boolean;
  /** Can sign in by the provider. */
  oidc_linked: boolean;
  csrf_token: string;
  organizations: { id: string; name: string; status: 'active' | 'suspended'; role: Role }[];
}

/** GET /dashboard/api/status: for the page before anybody is signed in. */
export interface DashboardStatus {
  version: string;
  /** No user yet: who signs up becomes the operator. */
  first_user: boolean;
  /** open: anybody; invited: with an invitation; setup_code: the first user, with the code that the server shows when it starts. */
  signup: 'open' | 'invited' | 'setup_code';
  /** A provider that people may sign in by; null without one. */
  oidc: { name: string } | null;
  /** Mail can be sent: forgotten passwords can be reset by link. */
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

/** Grouped-away fields are null. */
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
  /** Of those requests that said anything: how many; milliseconds to their first token, in all and behind it, added up. */
  answered: number;
  first_token_ms: number;
  duration_ms: number;
  decode_ms: number;
  /** By the prices of today, in their currency; null: none of the models has one. */
  cost: number | null;
}
/** Per million tokens. */
export interface ModelPrice {
  input: number;
  cached_input: number;
  output: number;
}
/** GET, PUT …/operator/prices, GET …/organizations/{org}/prices. `currency` is text beside the figures; an empty `models`: there are no prices. */
export interface PriceTable {
  currency: string;
  models: Record<string, ModelPrice>;
}
/** GET, PUT …/organizations/{org}/budget. Null `amount`: none; null `spent`: there are no prices. Address and secret for admins. */
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

/** GET …/requests?api_key&model&outcome&limit&after, youngest first. Milliseconds; null: it did not come to that. */
export interface RequestObject {
  id: string;
  request_id: string;
  organization_id: string;
  /** When it ended. */
  at: string;
  /** `playground`: a member, on the dashboard. */
  api_key_id: string;
  model: string | null;
  endpoint: string;
  stream: boolean;
  /** Null: the client had gone. */
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
  /** From its arrival to its first token. */
  first_token_ms: number | null;
  duration_ms: number;
  has_text: boolean;
}
/** GET …/requests/{id} */
export interface RequestDetail extends RequestObject {
  received_at: string;
  /** In order: reading, checking and rendering it; the engine's queue; its images, where the tower computed any; its prompt; its answer. */
  phases: {
    prepare_ms: number | null;
    queue_ms: number | null;
    tower_ms: number | null;
    prefill_ms: number | null;
    decode_ms: number | null;
  };
  parameters: Record<string, string | number | boolean> | null;
  /** For admins, where the organization has it kept. */
  text: {
    prompt: { role: string; text: string }[];
    answer: { choice: number; section: 'reasoning' | 'content' | 'call'; text: string }[];
    cut: boolean;
  } | null;
}

/** GET …/responses: no content. */
export interface StoredResponseObject {
  id: string;
  model: string;
  status: string;
  background: boolean;
  created_at: string;
  expires_at: string;
}

/** One thing of a conversation. `cut`: the text goes on. */
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
/** GET …/responses/{id}: with all that it continues, oldest first. `earlier`: how many more there were. */
export interface StoredConversation {
  object: 'conversation';
  turns: ConversationTurn[];
  earlier: number;
}

/** GET …/models: what the organization can ask for, highest tier first. */
export interface DashboardModel {
  id: string;
  display_name: string;
  lifecycle: 'active' | 'deprecated' | 'retired';
  /** Made to show the service, not to work with. */
  demonstration: boolean;
  /** `idle`: nobody has asked for it lately; loaded for whoever does. */
  state: 'loading' | 'ready' | 'failed' | 'idle' | 'unloaded';
  /** 0 … 1 while it loads. */
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
  /** Servers elsewhere that it runs on; null: it runs here. */
  upstream: number | null;
}

/** GET …/usage/latency: milliseconds of answers that said anything, of a whole span. */
export interface UsageLatency {
  object: 'list';
  /** The most by which a percentile is off, as a share of it. */
  relative_error: number;
  /** Null: not grouped by it. */
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

/** GET …/playground/image: what a model sees of a picture of this size. */
export interface DashboardImagePlan {
  width: number;
  height: number;
  /** Of the prompt. */
  tokens: number;
  /** Of tiles; 1 x 1: it is seen in one piece; 0 x 0: and that counts as an overview. */
  columns: number;
  rows: number;
  /** In the order in which the model reads them, in pixels that it sees. */
  pieces: readonly { part: 'image' | 'tile' | 'overview'; width: number; height: number }[];
}

/** Of the playground, as it is kept: pictures are not. `columns`: several where models were compared. */
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
      /** Milliseconds from asking to the first token, and to the end. */
      first_ms: number | null;
      total_ms: number | null;
    };
export interface SavedContent {
  settings: Record<string, string>;
  columns: { model: string; turns: SavedTurn[] }[];
}

/** …/organizations/{org}/playground/saved. With `content` where one is asked for. */
export interface SavedItem {
  id: string;
  kind: 'preset' | 'conversation';
  name: string;
  /** Members of the organization may open it. */
  shared: boolean;
  own: boolean;
  /** The owner's name. */
  by: string;
  created_at: string;
  expires_at: string | null;
}

// ---- operator ----

/** POST …/operator/models: serves what has been fetched, from now on and after every start. */
export interface OperatorServe {
  name: string;
  model: string;
  display_name?: string | null;
  idle_minutes?: number | null;
}
export interface OperatorModel extends DashboardModel {
  /** OWNER/REPO:QUANTIZATION of what an operator has served; null: a model of the settings. */
  source: string | null;
  /** Why it could not be loaded. */
  problem: string | null;
}

/** A model in the hub's cache. */
export interface DiskModel {
  /** OWNER/REPO:QUANTIZATION */
  model: string;
  path: string;
  file_bytes: number;
  /** Of a revision that the hub's branch has moved on from. */
  is_old: boolean;
  architecture: string | null;
  parameters: number | null;
  /** What loading it would take; null: it cannot be loaded, and `problem` says why. */
  memory_bytes: number | null;
  /** yes: that is free now; later: not now; no: it is more than the machine has. */
  fits: 'yes' | 'later' | 'no' | null;
  problem: string | null;
  served_as: string | null;
}

/** GET …/operator/disk. */
export interface DiskState {
  object: 'disk';
  endpoint: string;
  folder: string;
  /** Null where the folder is not there yet. */
  free_bytes: number | null;
  memory_bytes: number;
  available_memory_bytes: number;
  models: DiskModel[];
  pulls: ModelPull[];
}

/** One engine at one moment; rates are over the interval since the sample before. */
export interface EngineSample {
  /** First of the names it answers to. */
  model: string;
  names: string[];
  running: number;
  waiting: number;
  /** Rows of a step, mean over the interval: decodes plus pieces of prompts. */
  batch_rows: number;
  pages_total: number;
  pages_free: number;
  pages_cached: number;
  /** Share of prompt tokens found in the prefix cache, 0 … 1; null without prompts in the interval. */
  prefix_hit_rate: number | null;
  /** Milliseconds a step took, mean over the interval; null without a step. */
  step_ms: number | null;
  steps_per_s: number;
  prefill_tokens_per_s: number;
  decode_tokens_per_s: number;
  /** Milliseconds, over the last 60 seconds; null where nothing happened. */
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

/** One per second. GET …/operator/live is an event stream: `history` (LiveSample[]) once, then `sample` (LiveSample). */
export interface LiveSample {
  at: string;
  engines: EngineSample[];
  /** Since the sample before, by how they ended, within a stream too. errors: failures of the server, and answers that broke off. */
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

/** When an operator changed something of the engines. */
export interface LiveMark {
  at: string;
  action: string;
  target: string | null;
  by: string | null;
}
/** GET …/operator/live/history?from&to: samples that stand for `step_s` seconds each, from `at` on: means, of memory, lag and preemptions the most. */
export interface LiveHistory {
  object: 'live_history';
  from: string;
  to: string;
  step_s: number;
  samples: LiveSample[];
  marks: LiveMark[];
}
/** GET …/operator/live/keys?from&to&organization: what each organization has sent, or each key of one; the most first, the last may be `other`. Sums of each `step_s` seconds, from `times` on. */
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

/** GET …/operator/tunables (a ListPage), GET, PATCH …/operator/tunables/{model}, by any of its names: what can be changed while it runs. Effective from the engine's next step. */
export interface Tunable {
  name: TunableName;
  value: number;
  default: number;
  min: number;
  max: number;
  help: string;
  /** The flag, variable or file key that gave the default at this start: a change then lasts until the next start that gives it. */
  given: string | null;
}
export type TunableName = 'max_batch_tokens' | 'max_sequences' | 'step_ms' | 'queue_max' | 'queue_max_tokens';
export interface EngineTunables {
  model: string;
  names: string[];
  tunables: Tunable[];
  /** Settings are being tried on it: those in force are not kept, and end then at the latest if they are not prolonged. */
  held_until: string | null;
}
/** PUT …/operator/tunables/{model}/hold. `is_new`: begins the hold, else goes on with it. The answer is EngineTunables. DELETE ends it (`id` in the query). */
export interface EngineHoldRequest {
  id: string;
  is_new: boolean;
  seconds: number;
  values: TuneSettings;
}
/** Null: back to the setting the server was started with. Absent: as it is. The answer is EngineTunables. */
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
