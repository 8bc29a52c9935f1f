// Types of decision requests, which return a probability for each allowed answer to each question, and the text of the
// prompts. No side effects.
import type { Content, ContentPart, GenerationRequest, Message } from './types.js';

/** One allowed answer to a choice or score question, in the form in which the model reads it. */
export interface AnswerOption {
  readonly text: string;
  readonly description: string | null;
}

export type QuestionForm =
  | { readonly type: 'predicate' }
  | { readonly type: 'choice' | 'score'; readonly options: readonly AnswerOption[] };

/**
 * `request` contains the input messages, followed by one user message per question with its instructions. `inputs`:
 * number of input messages.
 */
export interface DecisionRequest {
  readonly request: GenerationRequest;
  readonly inputs: number;
  readonly forms: readonly QuestionForm[];
}

/**
 * The text before an answer's code in the model's response. The space between them is part of the code, because
 * vocabularies contain tokens for a space plus a word.
 */
export const ANSWER_LEAD = 'Answer:';

/** Number of allowed answers. A predicate has two: true and false. */
export const answerCount = (form: QuestionForm): number => (form.type === 'predicate' ? 2 : form.options.length);

/** Returns the text that follows a question's instructions. `codes`: the codes of the allowed answers, in order. */
function questionText(form: QuestionForm, codes: readonly string[]): string {
  if (form.type === 'predicate')
    return `Is this true of the input above? Reply with ${codes[0]} if it is, or with ${codes[1]} if it is not.`;
  const lines = form.options.map(
    ({ text, description }, index) => `${codes[index]}. ${text}${description === null ? '' : `: ${description}`}`,
  );
  const kind = codes.some(({ length }) => length > 1) ? 'letters' : 'letter';
  return form.type === 'choice'
    ? `Choose one of these options:\n${lines.join('\n')}\n\nReply with the ${kind} of one option.`
    : `Rate the input above with one of these levels, from the lowest to the highest:\n${lines.join('\n')}\n\nReply with the ${kind} of one level.`;
}

/**
 * Returns the messages of one question's prompt. If the input ends with a user message, the question becomes part of
 * it, because some chat templates reject two user messages in a row. The last message is the beginning of the answer.
 */
export function questionMessages(
  { request: { messages }, inputs, forms }: DecisionRequest,
  question: number,
  codes: readonly string[],
): Message[] {
  const asked = messages[inputs + question];
  const form = forms[question];
  if (asked?.role !== 'user' || form === undefined) throw new Error(`question ${question} has no message`);
  const whole = { ...asked, content: joined(asked.content, questionText(form, codes)) };
  const before = messages.slice(0, inputs);
  const last = before.at(-1);
  return [
    ...(last?.role === 'user'
      ? [...before.slice(0, -1), { ...last, content: joined(last.content, whole.content) }]
      : [...before, whole]),
    { role: 'assistant', content: ANSWER_LEAD },
  ];
}

function joined(first: Content, second: Content): Content {
  if (typeof first === 'string' && typeof second === 'string') return `${first}\n\n${second}`;
  return [...partsOf(first), { type: 'text', text: '\n\n' }, ...partsOf(second)];
}

const partsOf = (content: Content): readonly ContentPart[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content;
