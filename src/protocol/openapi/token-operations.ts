// The operations on the tokens and the state of a model in the OpenAPI document. No side effects.
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
    summary: 'Get the tokenizer of a model.',
    answer: 'TokenizerInfo',
    query: ofModel,
  },
  {
    method: 'get',
    path: '/props',
    id: 'modelProperties',
    summary: 'Get the properties of a model, with the field names of llama-server. Requires operator access.',
    answer: 'ModelProperties',
    query: ofModel,
  },
  {
    method: 'get',
    path: '/slots',
    id: 'modelSlots',
    summary: 'List the sequence slots of a model, with the field names of llama-server. Requires operator access.',
    answer: 'ModelSlots',
    query: { ...ofModel, fail_on_no_slot: z.string().optional() },
  },
] as const;
