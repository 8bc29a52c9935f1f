// Schemas of the model list in both formats and of the llama-server endpoints, as published in openapi.json.
import { z } from 'zod';

const lifecycle = z.enum(['active', 'deprecated', 'retired']);
const effort = z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);

export const chatModel = z.strictObject({
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
  root: z.string(),
  parent: z.string().nullable(),
  shutdown_date: z.string().nullable(),
  display_name: z.string(),
  demonstration: z.boolean(),
  lifecycle,
  deprecated_at: z.string().nullable(),
  retires_at: z.string().nullable(),
  successor: z.string().nullable(),
  context_window: z.int(),
  max_model_len: z.int(),
  context_length: z.int(),
  max_output_tokens: z.int(),
  task: z.enum(['generation', 'embedding', 'ranking']).nullable(),
  embedding_dimensions: z.array(z.int().min(1)).nullable(),
  input_modalities: z.array(z.enum(['text', 'image'])),
  reasoning_efforts: z.array(effort),
  default_reasoning_effort: effort,
  sampling_defaults: z.strictObject({
    temperature: z.number(),
    top_p: z.number(),
    top_k: z.int(),
    min_p: z.number(),
    repetition_penalty: z.number(),
  }),
});

export const chatModelList = z.strictObject({ object: z.literal('list'), data: z.array(chatModel) });

const support = z.looseObject({ supported: z.boolean() });

export const messagesModel = z.strictObject({
  type: z.literal('model'),
  id: z.string(),
  display_name: z.string(),
  created_at: z.string(),
  lifecycle,
  deprecated_at: z.string().nullable(),
  retires_at: z.string().nullable(),
  successor: z.string().nullable(),
  line: z.string().nullable(),
  max_input_tokens: z.int(),
  max_tokens: z.int(),
  context_length: z.int(),
  max_model_len: z.int(),
  capabilities: z.record(z.string(), support),
});

export const messagesModelList = z.strictObject({
  data: z.array(messagesModel),
  has_more: z.boolean(),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
});

/** Plain text that names the adapter. */
export const adapterMessage = z.string();

export const adapterList = z.array(
  z.strictObject({ id: z.int().min(0), name: z.string(), path: z.string(), scale: z.number() }),
);

/** The default sampling parameters, under llama-server's names. */
const requestDefaults = z.strictObject({
  n_predict: z.int(),
  max_tokens: z.int(),
  temperature: z.number(),
  top_k: z.int(),
  top_p: z.number(),
  min_p: z.number(),
  repeat_penalty: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  ignore_eos: z.boolean(),
  stop: z.array(z.string()),
});

export const modelProperties = z.strictObject({
  default_generation_settings: z.strictObject({ params: requestDefaults, n_ctx: z.int().min(0) }),
  total_slots: z.int().min(0),
  model_alias: z.string(),
  model_ftype: z.string().nullable(),
  model_path: z.string(),
  modalities: z.strictObject({ vision: z.boolean(), video: z.boolean(), audio: z.boolean() }),
  endpoint_slots: z.boolean(),
  endpoint_props: z.boolean(),
  endpoint_metrics: z.boolean(),
  chat_template: z.string(),
  bos_token: z.string(),
  eos_token: z.string(),
  build_info: z.string(),
  is_sleeping: z.boolean(),
});

export const modelSlots = z.array(
  z.strictObject({
    id: z.int().min(0),
    n_ctx: z.int().min(0),
    speculative: z.boolean(),
    is_processing: z.boolean(),
    params: requestDefaults,
  }),
);
