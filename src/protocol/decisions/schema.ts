// Schema of decision requests in OpenAI's format. Unknown fields are dropped; parse.ts lists them as ignored. For every
// optional field, null means absent.
import { z } from 'zod';
import { bounded, BROKEN_TEXT, cacheOptionFields, clientId, isWhole, jsonObject, MAX_ID } from '../fields.js';
import { list } from '../list.js';
import { MAX_ITEMS } from '../responses/schema.js';

export const MAX_QUESTIONS = 400;
/** Maximum number of choices or levels of one question. */
export const MAX_ANSWERS = 255;
/** Maximum total number of choices and levels of all questions. A predicate counts as two. */
export const MAX_ANSWERS_IN_ALL = 4_096;
/** Maximum number of characters of a choice's value or a level's label. */
const MAX_VALUE = 1_024;
const MAX_NAME = 512;

const text = z.string();

const inputText = z.object({ type: z.literal('input_text'), text });
const inputImage = z.object({
  type: z.literal('input_image'),
  image_url: text,
  detail: z.enum(['low', 'high', 'auto', 'original']).nullish(),
});
const inputJson = z.object({
  type: z.literal('input_json'),
  data: z.union([jsonObject(), z.array(jsonObject())]),
});
const part = z.discriminatedUnion('type', [inputText, inputImage, inputJson]);

const textContent = z.union([text, list(z.discriminatedUnion('type', [inputText]), { atLeastOne: true })]);
const messageFields = { type: z.literal('message') };
const message = z.discriminatedUnion('role', [
  z.object({
    ...messageFields,
    role: z.literal('user'),
    content: z.union([text, list(part, { atLeastOne: true })]),
  }),
  z.object({ ...messageFields, role: z.literal('system'), content: textContent }),
  z.object({ ...messageFields, role: z.literal('developer'), content: textContent }),
  z.object({
    ...messageFields,
    role: z.literal('assistant'),
    content: z.union([
      text,
      list(
        z.discriminatedUnion('type', [
          z.object({ type: z.literal('output_text'), text }),
          z.object({ type: z.literal('refusal'), refusal: text }),
        ]),
      ),
    ]),
    phase: z.enum(['commentary', 'final_answer']).nullish(),
  }),
]);

const callId = clientId().refine(isWhole, { error: BROKEN_TEXT });
/** IDs and statuses are accepted but have no effect, because clients send items back as they received them. */
const itemFields = { id: z.string().max(MAX_ID).nullish(), status: text.nullish() };
const called = {
  ...itemFields,
  call_id: callId,
  name: z.string().min(1).max(128),
  namespace: z.string().max(128).nullish(),
};
const output = z.union([text, list(z.discriminatedUnion('type', [inputText, inputImage]))]);

export const decisionItemSchema = z.discriminatedUnion('type', [
  message,
  z.object({ type: z.literal('function_call'), ...called, arguments: text }),
  z.object({ type: z.literal('function_call_output'), ...itemFields, call_id: callId, output }),
  z.object({ type: z.literal('custom_tool_call'), ...called, input: text }),
  z.object({ type: z.literal('custom_tool_call_output'), ...itemFields, call_id: callId, output }),
]);

const questionFields = {
  name: bounded(MAX_NAME).nullish(),
  instructions: z.union([text.min(1), list(part, { atLeastOne: true })]),
};
const choice = z.object({
  value: z.union([bounded(MAX_VALUE).min(1), z.boolean()]),
  description: text.nullish(),
});
const level = z.object({ label: bounded(MAX_VALUE).min(1), description: text.nullish() });

const question = z.discriminatedUnion('type', [
  z.object({ type: z.literal('predicate'), ...questionFields }),
  z.object({ type: z.literal('choice'), ...questionFields, choices: z.array(choice).min(2).max(MAX_ANSWERS) }),
  z.object({ type: z.literal('score'), ...questionFields, levels: z.array(level).min(2).max(MAX_ANSWERS) }),
]);

export const decisionRequestSchema = z.object({
  model: text,
  input: z.union([text.min(1), z.array(decisionItemSchema).min(1).max(MAX_ITEMS)]),
  questions: z.array(question).min(1).max(MAX_QUESTIONS),
  prompt_cache_key: bounded(512).nullish(),
  prompt_cache_options: z.object(cacheOptionFields).nullish(),
  safety_identifier: bounded(512).nullish(),
});

/** The same schema without validation of the items, which are validated one by one, stopping at the first error. */
export const decisionEnvelopeSchema = decisionRequestSchema.extend({
  input: z.union([text.min(1), z.array(z.unknown()).min(1).max(MAX_ITEMS)]),
});

export type DecisionEnvelope = z.infer<typeof decisionEnvelopeSchema>;
export type DecisionItem = z.infer<typeof decisionItemSchema>;
export type DecisionPart = z.infer<typeof part>;
export type Question = z.infer<typeof question>;
