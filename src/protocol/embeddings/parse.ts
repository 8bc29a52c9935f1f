// Converts an embeddings request to a PoolingRequest, or throws the appropriate ApiError. Pure. The stages are the same
// as for chat completions: JSON structure (400), then the model lookup by the caller, then content (422).
import type { PoolingInput, PoolingRequest } from '../../generation/pooling.js';
import { ERRORS } from '../../shared/error-codes.js';
import { apiError, type ApiError } from '../../shared/errors.js';
import { ineffectiveInEmbeddings } from '../ineffective.js';
import { toTruncation } from '../pooling/truncation.js';
import type { VectorEncoding } from '../pooling/vectors.js';
import { readTextsOrTokens, type TextsOrTokens } from '../texts-or-tokens.js';
import { validate } from '../validation.js';
import { embeddingsEnvelopeSchema, MAX_INPUTS } from './schema.js';

export interface ParsedEmbeddings {
  model: string;
  /** Runs the checks that follow the model lookup. Throws ApiError 422. */
  content(): EmbeddingsRequest;
}

export interface EmbeddingsRequest {
  request: PoolingRequest;
  encoding: VectorEncoding;
  endUser: string | null;
  ignored: string[];
}

/** Validates the structure of an embeddings request. Throws ApiError 400. */
export function parseEmbeddings(body: unknown): ParsedEmbeddings {
  const envelope = validate(embeddingsEnvelopeSchema, body);
  if (!envelope.ok && envelope.isShape) throw envelope.error;
  const { model, input } = body as { model: string; input?: unknown };
  let inputs: TextsOrTokens | ApiError;
  try {
    inputs = readTextsOrTokens(input, 'input', MAX_INPUTS);
  } catch (error) {
    inputs = error as ApiError;
    if (ERRORS[inputs.code].status === 400) throw inputs;
  }
  return {
    model,
    content() {
      if ('code' in inputs) throw inputs;
      if (!envelope.ok) throw envelope.error;
      const { dimensions, encoding_format: encoding, user, prompt_name: promptName, ...fields } = envelope.value;
      return {
        request: {
          task: 'embedding',
          inputs: toInputs(inputs, 'input'),
          addSpecial: fields.add_special_tokens !== false,
          truncation: toTruncation(fields),
          maxDocumentTokens: null,
          promptName: promptName ?? null,
          dimensions: dimensions ?? null,
        },
        encoding: encoding ?? 'float',
        endUser: user ?? null,
        ignored: ineffectiveInEmbeddings(body as Record<string, unknown>),
      };
    },
  };
}

/**
 * Converts the values to inputs with their paths. `field`: name of the request field. Throws ApiError 422 if a text is
 * empty.
 */
export function toInputs(values: TextsOrTokens, field: string): PoolingInput[] {
  return values.map((value, index) => {
    const path = values.length === 1 ? field : `${field}[${index}]`;
    if (value === '') throw apiError('invalid_value', `${path} must not be an empty string.`, path);
    return typeof value === 'string' ? { kind: 'text', text: value, path } : { kind: 'tokens', tokens: value, path };
  });
}
