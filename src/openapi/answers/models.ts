// What the model list answers in either dialect, as published in openapi.json.
import { z } from 'zod';

const lifecycle = z.enum(['active', 'deprecated', 'retired']);
const effort = z.enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);

export const chatModel = z.strictObject({
  id: z.string(), object: z.literal('model'), created: z.int(), owned_by: z.string(), root: z.string(), parent: z.null(), shutdown_date: z.string().nullable(),
  display_name: z.string(), demonstration: z.boolean(), lifecycle, deprecated_at: z.string().nullable(), retires_at: z.string().nullable(), successor: z.string().nullable(),
  context_window: z.int(), max_model_len: z.int(), context_length: z.int(), max_output_tokens: z.int(),
  input_modalities: z.array(z.enum(['text', 'image'])),
  reasoning_efforts: z.array(effort), default_reasoning_effort: effort,
  sampling_defaults: z.strictObject({
    temperature: z.number(), top_p: z.number(), top_k: z.int(), min_p: z.number(), repetition_penalty: z.number(),
  }),
});

export const chatModelList = z.strictObject({ object: z.literal('list'), data: z.array(chatModel) });

const support = z.looseObject({ supported: z.boolean() });

export const messagesModel = z.strictObject({
  type: z.literal('model'), id: z.string(), display_name: z.string(), created_at: z.string(), lifecycle,
  deprecated_at: z.string().nullable(), retires_at: z.string().nullable(), successor: z.string().nullable(), line: z.string().nullable(),
  max_input_tokens: z.int(), max_tokens: z.int(), context_length: z.int(), max_model_len: z.int(), capabilities: z.record(z.string(), support),
});

export const messagesModelList = z.strictObject({
  data: z.array(messagesModel), has_more: z.boolean(), first_id: z.string().nullable(), last_id: z.string().nullable(),
});
