// Converts rerank and score requests to PoolingRequests, or throws the appropriate ApiError. Pure. The stages are the
// same as for chat completions: JSON structure (400), then the model lookup by the caller, then content (422).
import type { PoolingInput, PoolingRequest } from '../../generation/pooling.js';
import { apiError, type ApiError } from '../../shared/errors.js';
import { isRecord, lengthOf } from '../entry-limits.js';
import { ineffectiveInRerank, ineffectiveInScore } from '../ineffective.js';
import { toTruncation } from '../pooling/truncation.js';
import { validate } from '../validation.js';
import {
  DEFAULT_DOCUMENT_TOKENS,
  MAX_DOCUMENTS,
  rerankRequestSchema,
  scoreRequestSchema,
  type RerankFields,
  type ScoreFields,
} from './schema.js';

export interface Parsed<T> {
  model: string;
  /** Runs the checks that follow the model lookup. Throws ApiError 422. */
  content(): T;
}

export interface RankingRequest {
  request: PoolingRequest;
  endUser: string | null;
  ignored: string[];
}

export interface RerankRequest extends RankingRequest {
  /** Maximum number of results to return. */
  topN: number;
  /** The documents to repeat in the response; null = do not repeat them. */
  documents: readonly string[] | null;
}

/** Validates the structure of a rerank request. Throws ApiError 400. */
export function parseRerank(body: unknown): Parsed<RerankRequest> {
  const overlong = tooMany(body, ['documents']);
  const fields = overlong === null ? validate(rerankRequestSchema, body) : null;
  if (fields !== null && !fields.ok && fields.isShape) throw fields.error;
  return {
    model: modelIn(body),
    content() {
      if (fields === null) throw overlong;
      if (!fields.ok) throw fields.error;
      return toRerank(fields.value, ineffectiveInRerank(body as Record<string, unknown>));
    },
  };
}

/** Validates the structure of a score request. Throws ApiError 400. */
export function parseScore(body: unknown): Parsed<RankingRequest> {
  const overlong = tooMany(body, ['text_1', 'text_2']);
  const fields = overlong === null ? validate(scoreRequestSchema, body) : null;
  if (fields !== null && !fields.ok && fields.isShape) throw fields.error;
  return {
    model: modelIn(body),
    content() {
      if (fields === null) throw overlong;
      if (!fields.ok) throw fields.error;
      return toScore(fields.value, ineffectiveInScore(body as Record<string, unknown>));
    },
  };
}

/**
 * Returns an error if one of the named lists is too long. Must be called before schema validation, which would report
 * one error per invalid entry.
 */
function tooMany(body: unknown, names: readonly string[]): ApiError | null {
  if (!isRecord(body)) return null;
  const name = names.find((one) => lengthOf(body[one]) > MAX_DOCUMENTS);
  if (name === undefined) return null;
  return apiError('array_too_long', `${name} may have at most ${MAX_DOCUMENTS} entries.`, name);
}

function modelIn(body: unknown): string {
  const { model } = body as { model?: unknown };
  if (typeof model === 'string') return model;
  throw apiError('missing_required_parameter', 'model is required.', 'model');
}

/**
 * Converts the fields of a rerank request. As in Cohere's API, documents that are too long are truncated unless the
 * request disables truncation.
 */
function toRerank(fields: RerankFields, ignored: string[]): RerankRequest {
  const documents = fields.documents.map((document) => (typeof document === 'string' ? document : document.text));
  const inputs = documents.map(
    (document, index): PoolingInput => ({
      kind: 'pair',
      query: fields.query,
      document,
      path: `documents[${index}]`,
      queryPath: 'query',
    }),
  );
  const truncation = toTruncation(fields, true);
  const perDocument = fields.max_tokens_per_doc ?? (truncation === null ? null : DEFAULT_DOCUMENT_TOKENS);
  return {
    request: { ...RANKING, inputs, truncation, maxDocumentTokens: perDocument },
    topN: Math.min(fields.top_n ?? documents.length, documents.length),
    documents: fields.return_documents === true ? documents : null,
    endUser: fields.user ?? null,
    ignored,
  };
}

function toScore(fields: ScoreFields, ignored: string[]): RankingRequest {
  const [first, second] = [listOf(fields.text_1), listOf(fields.text_2)];
  if (first.length !== 1 && first.length !== second.length)
    throw apiError(
      'conflicting_parameters',
      `text_1 must have one entry, or as many as text_2 (got ${first.length} and ${second.length}).`,
      'text_1',
    );
  const inputs = second.map(
    (document, index): PoolingInput => ({
      kind: 'pair',
      query: first[first.length === 1 ? 0 : index] as string,
      document,
      path: second.length === 1 ? 'text_2' : `text_2[${index}]`,
      queryPath: first.length === 1 ? 'text_1' : `text_1[${index}]`,
    }),
  );
  return {
    request: { ...RANKING, inputs, truncation: toTruncation(fields), maxDocumentTokens: null },
    endUser: fields.user ?? null,
    ignored,
  };
}

const listOf = (texts: string | readonly string[]): readonly string[] => (typeof texts === 'string' ? [texts] : texts);

const RANKING = { task: 'ranking', addSpecial: true, promptName: null, dimensions: null } as const;
