// Schemas of responses in Ollama's API, as published in openapi.json. Each line of a stream has the same schema as a
// non-streamed response.
import { z } from 'zod';

const count = z.int().min(0);
const logprob = { token: z.string(), logprob: z.number(), bytes: z.array(z.int()) };
const date = z.iso.datetime();

/** Required in the last line of a stream and in every non-streamed response. Durations are in nanoseconds. */
const common = {
  model: z.string(),
  created_at: date,
  logprobs: z.array(z.strictObject({ ...logprob, top_logprobs: z.array(z.strictObject(logprob)) })).optional(),
  done: z.boolean(),
  done_reason: z.enum(['stop', 'length', 'load']).optional(),
  total_duration: count.optional(),
  load_duration: count.optional(),
  prompt_eval_count: count.optional(),
  prompt_eval_duration: count.optional(),
  eval_count: count.optional(),
  eval_duration: count.optional(),
};

export const ollamaChat = z.strictObject({
  ...common,
  message: z.strictObject({
    role: z.literal('assistant'),
    content: z.string(),
    thinking: z.string().optional(),
    tool_calls: z
      .array(
        z.strictObject({
          id: z.string(),
          function: z.strictObject({ index: count, name: z.string(), arguments: z.record(z.string(), z.unknown()) }),
        }),
      )
      .optional(),
  }),
});

export const ollamaCompletion = z.strictObject({
  ...common,
  response: z.string(),
  thinking: z.string().optional(),
});

const details = z.strictObject({
  parent_model: z.string(),
  format: z.string(),
  family: z.string(),
  families: z.array(z.string()),
  parameter_size: z.string(),
  quantization_level: z.string(),
});

const model = {
  name: z.string(),
  model: z.string(),
  size: count,
  digest: z.string().regex(/^[0-9a-f]{64}$/),
  details,
};

export const ollamaModels = z.strictObject({ models: z.array(z.strictObject({ ...model, modified_at: date })) });

export const ollamaRunning = z.strictObject({
  models: z.array(z.strictObject({ ...model, expires_at: date, size_vram: count, context_length: count })),
});

export const ollamaModel = z.strictObject({
  license: z.string(),
  modelfile: z.string(),
  system: z.string(),
  parameters: z.string(),
  template: z.string(),
  details,
  model_info: z.record(z.string(), z.unknown()),
  capabilities: z.array(z.enum(['completion', 'embedding', 'tools', 'thinking', 'vision'])),
  modified_at: date,
});

export const ollamaEmbed = z.strictObject({
  model: z.string(),
  embeddings: z.array(z.array(z.number())),
  total_duration: count.optional(),
  load_duration: count.optional(),
  prompt_eval_count: count.optional(),
});

export const ollamaEmbedding = z.strictObject({ embedding: z.array(z.number()) });

export const ollamaVersion = z.strictObject({ version: z.string() });

export const ollamaProgress = z.strictObject({
  status: z.string(),
  digest: z.string().optional(),
  total: count.optional(),
  completed: count.optional(),
});

export const ollamaError = z.strictObject({ error: z.string().min(1) });
