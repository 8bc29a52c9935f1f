// The codes with which a model answers decision questions: short texts that form a single vocabulary token after the
// lead (the text that starts the answer). One token decides between all answers, so an answer's probability does not
// depend on how many tokens its text has. One instance per loaded model. Event-loop thread only.
import type { Engine } from '../../engine/engine.js';
import { ANSWER_LEAD } from '../decisions.js';

export interface AnswerCode {
  readonly text: string;
  readonly token: number;
}

const LETTERS = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'];
const SMALL = LETTERS.map((letter) => letter.toLowerCase());
const pairs = (first: readonly string[], second: readonly string[]): string[] =>
  first.flatMap((one) => second.map((other) => one + other));

/** In order of use: A to Z, AA to ZZ, Aa to Zz, aa to zz. */
const CANDIDATES = [...LETTERS, ...pairs(LETTERS, LETTERS), ...pairs(LETTERS, SMALL), ...pairs(SMALL, SMALL)];

const PLAIN = { addSpecial: false, parseSpecial: false, guard: 0 };

export class AnswerCodes {
  /** The usable codes among the candidates that have been checked so far. */
  readonly #found: AnswerCode[] = [];
  #lookedUp = 0;

  constructor(private readonly engine: Pick<Engine, 'tokenize'>) {}

  /** Returns the codes of true and false: Yes and No, or two letters if these words are not single tokens. */
  async ofPredicate(): Promise<readonly AnswerCode[]> {
    const [yes, no] = [await this.#tokenOf('Yes'), await this.#tokenOf('No')];
    if (yes === null || no === null || yes === no) return this.first(2);
    return [
      { text: 'Yes', token: yes },
      { text: 'No', token: no },
    ];
  }

  /** Returns the first `count` codes, or fewer if the vocabulary does not have as many. */
  async first(count: number): Promise<readonly AnswerCode[]> {
    while (this.#found.length < count && this.#lookedUp < CANDIDATES.length) {
      const at = this.#lookedUp;
      const text = CANDIDATES[at]!;
      const token = await this.#tokenOf(text);
      if (at !== this.#lookedUp) continue; // another request has looked it up in the meantime
      this.#lookedUp++;
      if (token !== null && !this.#found.some((code) => code.token === token)) this.#found.push({ text, token });
    }
    return this.#found.slice(0, count);
  }

  /**
   * Returns the token of a code after the lead. Returns null if the code has several tokens or shares a token with
   * the lead.
   */
  async #tokenOf(code: string): Promise<number | null> {
    const lead = await this.engine.tokenize(ANSWER_LEAD, PLAIN);
    const whole = await this.engine.tokenize(`${ANSWER_LEAD} ${code}`, PLAIN);
    const follows = whole.length === lead.length + 1 && lead.every((token, index) => whole[index] === token);
    return follows ? (whole[lead.length] as number) : null;
  }
}
