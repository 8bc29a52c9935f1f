// OpenAPI operations on a model's tokens and state. No side effects.
import { z } from 'zod';

const ofModel = { model: z.string().optional() };

/** Entries of `operations` in document.ts. */
export const tokenOperations = [
  {
    method: 'post',
    path: '/tokenize',
    id: 'tokenize',
    summary: 'Tokenize a text or a conversation.',
    request: 'TokenizeRequest',
    answer: 'Tokens',
  },
  {
    method: 'post',
    path: '/detokenize',
    id: 'detokenize',
    summary: 'Convert tokens to text.',
    request: 'DetokenizeRequest',
    answer: 'DetokenizedText',
  },
  {
    method: 'post',
    path: '/apply-template',
    id: 'applyTemplate',
    summary: 'Render a conversation as prompt text with the chat template.',
    request: 'ApplyTemplateRequest',
    answer: 'RenderedPrompt',
  },
  {
    method: 'get',
    path: '/tokenizer_info',
    id: 'tokenizerInfo',
    summary: "Get a model's tokenizer.",
    answer: 'TokenizerInfo',
    query: ofModel,
  },
  {
    method: 'get',
    path: '/props',
    id: 'modelProperties',
    summary: "Get a model's properties, with the field names of llama-server. Requires operator access.",
    answer: 'ModelProperties',
    query: ofModel,
  },
  {
    method: 'get',
    path: '/slots',
    id: 'modelSlots',
    summary: "List a model's sequence slots, with the field names of llama-server. Requires operator access.",
    answer: 'ModelSlots',
    query: { ...ofModel, fail_on_no_slot: z.string().optional() },
  },
] as const;
