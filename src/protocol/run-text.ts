// Collects the text of one generation for the request log. Event-loop thread only.
import type { Message } from '../generation/types.js';
import type { RequestText } from '../shared/request-entry.js';
import type { RunEvent } from './run-tally.js';

type Section = RequestText['answer'][number]['section'];
interface Piece {
  choice: number;
  section: Section;
  text: string;
}

/**
 * Collects the text of the prompt and the output, up to a maximum number of characters, for organizations that store
 * text in the request log.
 */
export class RunText {
  readonly #prompt: { role: string; text: string }[] = [];
  readonly #pieces: Piece[] = [];
  #room: number;
  #cut = false;

  /** If the messages do not fit, the most recent text is kept. */
  constructor(characters: number, messages: readonly Message[]) {
    this.#room = characters;
    let room = characters;
    for (const message of [...messages].reverse()) {
      const text = textOf(message);
      if (text.length > room) this.#cut = true;
      // The text is copied, because a slice would keep the whole source string alive.
      if (room > 0)
        this.#prompt.unshift({
          role: message.role,
          text: text.length > room ? Buffer.from(text.slice(text.length - room)).toString() : text,
        });
      room = Math.max(0, room - text.length);
    }
  }

  get text(): RequestText {
    return { prompt: this.#prompt, answer: this.#pieces, cut: this.#cut };
  }

  take(event: RunEvent): void {
    switch (event.type) {
      case 'text':
        return this.#add(event.choice, event.section, event.text, false);
      case 'call_started':
        return this.#add(event.choice, 'call', `${event.name} `, true);
      case 'search_started':
        return this.#add(event.choice, 'call', `web_search ${event.query ?? ''}`, true);
      case 'mcp_started':
      case 'mcp_approval':
        return this.#add(event.choice, 'call', `${event.label}.${event.name} ${event.arguments}`, true);
      case 'call_arguments':
        return this.#add(event.choice, 'call', event.text, false);
      default:
    }
  }

  #add(choice: number, section: Section, text: string, restart: boolean): void {
    const fits = text.length > this.#room ? text.slice(0, this.#room) : text;
    if (fits.length < text.length) this.#cut = true;
    if (fits === '') return;
    this.#room -= fits.length;
    const last = this.#pieces.findLast((piece) => piece.choice === choice);
    if (!restart && last?.section === section) last.text += fits;
    else this.#pieces.push({ choice, section, text: fits });
  }
}

function textOf({ content, ...message }: Message): string {
  const said =
    content === null
      ? ''
      : typeof content === 'string'
        ? content
        : content.map((part) => (part.type === 'text' ? part.text : '[image]')).join('');
  const calls =
    'toolCalls' in message ? (message.toolCalls ?? []).map(({ name, arguments: given }) => `${name} ${given}`) : [];
  return [said, ...calls].filter((text) => text !== '').join('\n');
}
