// Builds the response to a decision request. No side effects.
import type { Usage } from '../usage.js';
import type { Question } from './schema.js';

/** Estimated size, in bytes, of one answer, and of one entry for a choice or level, excluding its text. */
const ANSWER_BYTES = 96,
  ENTRY_BYTES = 64;

/** Returns the approximate size of the response in bytes. */
export function responseBytes(questions: readonly Question[]): number {
  let bytes = ANSWER_BYTES;
  for (const question of questions) {
    bytes += ANSWER_BYTES + (question.name?.length ?? 0);
    if (question.type === 'choice')
      for (const { value } of question.choices) bytes += ENTRY_BYTES + String(value).length;
    if (question.type === 'score') for (const { label } of question.levels) bytes += ENTRY_BYTES + label.length;
  }
  return bytes;
}

export function decisionBody(
  model: string,
  questions: readonly Question[],
  probabilities: readonly (readonly number[])[],
  { promptTokens, cachedTokens, completionTokens }: Usage,
): object {
  return {
    answers: questions.map((question, index) => answer(question, probabilities[index] as readonly number[])),
    model,
    usage: {
      input_tokens: promptTokens,
      input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
      output_tokens: completionTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: promptTokens + completionTokens,
    },
  };
}

/** `probabilities`: probabilities of the allowed answers, in the question's order. */
function answer(question: Question, probabilities: readonly number[]): object {
  const { type, name = null } = question;
  if (type === 'predicate') return { type, name, probability: probabilities[0] };
  const confidence = Math.max(...probabilities);
  if (type === 'choice')
    return {
      type,
      name,
      choice: question.choices[probabilities.indexOf(confidence)]?.value,
      confidence,
      probabilities: question.choices.map(({ value }, index) => ({ value, probability: probabilities[index] })),
    };
  return {
    type,
    name,
    score: probabilities.reduce((sum, probability, value) => sum + probability * value, 0),
    confidence,
    probabilities: question.levels.map(({ label }, value) => ({ label, value, probability: probabilities[value] })),
  };
}
