// Converts a decision request to the internal form, or throws the appropriate ApiError. No side effects. The stages are
// the same as for chat completions: JSON structure (400), then the model lookup by the caller, then content (422).
import type { Sealer } from '../../accounts/sealing/sealer.js';
import type { DecisionRequest, QuestionForm } from '../../generation/decisions.js';
import type { ContentPart, Message } from '../../generation/types.js';
import { WITHOUT_TEXT } from '../../generation/without-text.js';
import { stringifyExact } from '../../shared/exact-json.js';
import { apiError, type ApiError } from '../../shared/errors.js';
import { isRecord, lengthOf } from '../entry-limits.js';
import { ineffectiveInDecisions } from '../ineffective.js';
import { overlong, withType } from '../responses/bounds.js';
import { readInput } from '../responses/input.js';
import type { WireItem } from '../responses/schema-items.js';
import { validateInSlices } from '../validate-in-slices.js';
import { validate, validateList } from '../validation.js';
import {
  decisionEnvelopeSchema,
  decisionItemSchema,
  MAX_ANSWERS,
  MAX_ANSWERS_IN_ALL,
  MAX_QUESTIONS,
  type DecisionEnvelope,
  type DecisionItem,
  type DecisionPart,
  type Question,
} from './schema.js';

export interface ParsedDecisions {
  model: string;
  /** Runs the checks that follow the model lookup. Throws ApiError 422. */
  content(context: ContentContext): AskedDecisions;
}

export interface ContentContext {
  /** The requested model's name and aliases. */
  models: readonly string[];
  organizationId: string;
  sealer: Sealer;
}

export interface AskedDecisions {
  decisions: DecisionRequest;
  questions: readonly Question[];
  /** `safety_identifier`. */
  endUser: string | null;
  ignored: string[];
}

/** Validates the items of a large request in slices, ahead of parseDecisions(), which reports any errors. */
export function validateDecisionsInSlices(body: unknown): Iterator<unknown> | null {
  if (!isRecord(body) || !Array.isArray(body['input']) || overlong(body) !== null) return null;
  return validateInSlices(decisionItemSchema, body['input'], withType);
}

/** Validates the structure of a decision request. Throws ApiError 400. */
export function parseDecisions(body: unknown): ParsedDecisions {
  const excess = overlong(body) ?? tooMany(body);
  const envelope = excess === null ? validate(decisionEnvelopeSchema, body) : null;
  if (envelope !== null && !envelope.ok && envelope.isShape) throw envelope.error;
  const { model, input } = body as { model?: unknown; input?: unknown };
  const items =
    envelope !== null && Array.isArray(input) ? validateList(decisionItemSchema, input, 'input', withType) : null;
  if (items !== null && !items.ok && items.isShape) throw items.error;
  if (typeof model !== 'string') throw apiError('missing_required_parameter', 'model is required.', 'model');
  return {
    model,
    content(context) {
      if (envelope === null) throw excess;
      if (!envelope.ok) throw envelope.error;
      if (items !== null && !items.ok) throw items.error;
      const wire = items?.ok ? items.value : (input as string);
      return toDecisions(envelope.value, {
        wire,
        context,
        ignored: ineffectiveInDecisions(body as Record<string, unknown>),
      });
    },
  };
}

/**
 * Returns an error if a list is too long. Called before schema validation, which would report one error per invalid
 * entry.
 */
function tooMany(body: unknown): ApiError | null {
  const questions: unknown = isRecord(body) ? body['questions'] : null;
  if (!Array.isArray(questions)) return null;
  if (questions.length > MAX_QUESTIONS)
    return apiError('array_too_long', `questions may have at most ${MAX_QUESTIONS} entries.`, 'questions');
  let answers = 0;
  for (const [index, question] of (questions as unknown[]).entries()) {
    if (!isRecord(question)) continue;
    for (const name of ['choices', 'levels']) {
      const length = lengthOf(question[name]);
      if (length > MAX_ANSWERS)
        return apiError(
          'array_too_long',
          `questions[${index}].${name} may have at most ${MAX_ANSWERS} entries.`,
          `questions[${index}].${name}`,
        );
      answers += length;
    }
    if (question['type'] === 'predicate') answers += 2;
  }
  return answers <= MAX_ANSWERS_IN_ALL
    ? null
    : apiError(
        'array_too_long',
        `questions may have at most ${MAX_ANSWERS_IN_ALL} choices and levels in total. A predicate counts as two.`,
        'questions',
      );
}

function toDecisions(
  fields: DecisionEnvelope,
  { wire, context, ignored }: { wire: string | readonly DecisionItem[]; context: ContentContext; ignored: string[] },
): AskedDecisions {
  const input = readInput(typeof wire === 'string' ? wire : wire.map(toWireItem), new Map(), {
    ...context,
    rejects: false,
    chain: [],
    items: new Map(),
  });
  const { questions } = fields;
  return {
    decisions: {
      request: {
        ...WITHOUT_TEXT,
        model: fields.model,
        messages: [...input.messages, ...questions.map((question, index) => toMessage(question, index))],
        decisions: { questions: questions.length },
        ...(ignored.length === 0 ? {} : { ignored }),
      },
      inputs: input.messages.length,
      forms: questions.map(toForm),
    },
    questions,
    endUser: fields.safety_identifier ?? null,
    ignored,
  };
}

/** Converts an item to the Responses format, which has no JSON parts. */
function toWireItem(item: DecisionItem): WireItem {
  if (item.type !== 'message') return item;
  switch (item.role) {
    case 'user':
      return { ...item, content: typeof item.content === 'string' ? item.content : texts(item.content) };
    default:
      return item;
  }
}

type TextOrImage = Exclude<DecisionPart, { type: 'input_json' }>;

/** Replaces JSON parts with text parts that contain the JSON on separate lines. */
const texts = (parts: readonly DecisionPart[]): TextOrImage[] =>
  parts.map((part, index) => {
    if (part.type !== 'input_json') return part;
    const json = stringifyExact(part.data);
    return { type: 'input_text', text: `${index === 0 ? '' : '\n'}${json}${index === parts.length - 1 ? '' : '\n'}` };
  });

/** Throws ApiError 422 if a choice occurs twice. */
function toForm(question: Question, index: number): QuestionForm {
  switch (question.type) {
    case 'predicate':
      return { type: 'predicate' };
    case 'choice': {
      const seen = new Set<string | boolean>();
      for (const [at, { value }] of question.choices.entries()) {
        const path = `questions[${index}].choices[${at}].value`;
        if (seen.has(value)) throw apiError('invalid_value', `${path} repeats the value of an earlier choice.`, path);
        seen.add(value);
      }
      const options = question.choices.map(({ value, description = null }) => ({
        text: JSON.stringify(value), // the quotation marks distinguish a string from a boolean
        description,
      }));
      return { type: 'choice', options };
    }
    case 'score':
      return {
        type: 'score',
        options: question.levels.map(({ label, description = null }) => ({ text: label, description })),
      };
  }
}

function toMessage({ instructions }: Question, index: number): Message {
  const path = `questions[${index}]`;
  if (typeof instructions === 'string') return { role: 'user', content: instructions, path };
  const parts = texts(instructions).map(
    (part, at): ContentPart =>
      part.type === 'input_text'
        ? { type: 'text', text: part.text }
        : {
            type: 'image',
            source: { kind: 'url', url: part.image_url },
            detail: part.detail ?? 'auto',
            path: `${path}.instructions[${at}]`,
          },
  );
  const content = parts.every((part) => part.type === 'text') ? parts.map(({ text }) => text).join('') : parts;
  return { role: 'user', content, path };
}
