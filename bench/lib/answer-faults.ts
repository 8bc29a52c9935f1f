// Detects faults in a response that can be recognized without the prompt: stray thinking and tool-call markers in the
// text, and loops. Also creates prompts that provoke both. No side effects.

const MARKERS = [
  '<think>',
  '</think>',
  '<tool_call>',
  '</tool_call>',
  '<tool_response>',
  '</tool_response>',
  '<|im_start|>',
  '<|im_end|>',
  '<|endoftext|>',
];

/** Returns `marker X` for each marker in the text. */
export function strayMarkers(text: string): string[] {
  return MARKERS.filter((marker) => text.includes(marker)).map((marker) => `marker ${marker}`);
}

/** Maximum length of the run whose repetition is detected, in characters. */
const LONGEST = 240;
/**
 * Minimum total length of a loop, in characters. Shorter repetitions are normal: a row of dashes, zeros, "ha ha ha".
 */
const LEAST = 160;

/**
 * Finds a run of characters that is repeated more than three times in a row, with at least LEAST characters in total.
 * Returns `loop "..." n times`.
 */
export function loopIn(text: string): string[] {
  for (let length = 1; length <= LONGEST; length++) {
    let agreeing = 0;
    for (let at = length; at < text.length; at++) {
      agreeing = text[at] === text[at - length] ? agreeing + 1 : 0;
      if (agreeing >= 3 * length && agreeing + length >= LEAST)
        return [
          `loop ${JSON.stringify(text.slice(at - length + 1, at + 1))} ${Math.floor(agreeing / length) + 1} times`,
        ];
    }
  }
  return [];
}

const OPENINGS = ['', 'Hello! ', 'Please: ', 'hey, ', 'Tell me, ', 'I wonder: '];
const ENDINGS = [
  '',
  ' Be brief.',
  ' Quickly!',
  ' thanks',
  '\n\nAnswer in full sentences.',
  ' ...',
  ' Please say it twice.',
];
const TASKS = [
  'Who are you?',
  'What is the capital of {place}?',
  'What is {n} plus {m}?',
  'List {n} {things}.',
  'Write a story about {things}.',
  'Extract name and age as JSON.\n\n{name} is {m} years old.',
  'Repeat the word {name} {n} times.',
  'Explain {things} in detail, please, in very many words.',
  'Translate "{things}" into the language of {place}.',
  'Why is the sky over {place} blue?',
  'Say <think> and </think>.',
  'What does <tool_call> mean?',
  '{name} {name} {name} {name}',
  'asdf {n} qwer {m} zxcv',
  '{things}, {things}, {things}, and',
  'Is {n} a prime number? Show your work.',
];
const PLACES = ['France', 'Peru', 'the Moon', 'Atlantis', 'Japan', 'nowhere'];
const THINGS = ['apples', 'lighthouses', 'quantum fields', 'dogs', 'old maps', 'rivers', 'clocks'];
const NAMES = ['Anna', 'Noor', 'Bob', 'Zoë', 'Li Wei'];

/**
 * `held`: JSON lines with `messages`. Returns the first user message of each line, followed by generated prompts. All
 * prompts are distinct.
 */
export function promptsOf(count: number, held: string): string[] {
  const prompts = held
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const { messages } = JSON.parse(line) as { messages: { role: string; content: string }[] };
      return messages.find(({ role }) => role === 'user')?.content ?? '';
    })
    .filter((text) => text !== '')
    .slice(0, count);
  const one = <T>(list: readonly T[], at: number): T => list[at % list.length] as T;
  for (let at = 0; prompts.length < count; at++) {
    const task = one(TASKS, at);
    const filled = task
      .replaceAll('{place}', one(PLACES, at * 5 + 1))
      .replaceAll('{things}', one(THINGS, at * 3 + 2))
      .replaceAll('{name}', one(NAMES, at * 7))
      .replaceAll('{n}', String(((at * 13) % 41) + 2))
      .replaceAll('{m}', String(((at * 29) % 97) + 1));
    const round = Math.floor(at / TASKS.length);
    prompts.push(one(OPENINGS, round) + filled + one(ENDINGS, round));
  }
  return prompts;
}
