// The line breaks models write around their reasoning markers belong to neither text: they are taken off
// the beginning of a reasoning section and of the answer after one. One per choice.
import type { GenerationEvent } from './types.js';

type TextEvent = Extract<GenerationEvent, { type: 'text' }>;

export class SectionStart {
  #section: TextEvent['section'] = 'content';
  #stripping = false;

  /** The event without those line breaks; log probabilities of tokens that were nothing else go too. */
  strip(event: TextEvent): TextEvent {
    if (event.section !== this.#section) {
      this.#section = event.section;
      this.#stripping = true;
    }
    if (!this.#stripping || event.text === '') return event;
    const text = event.text.replace(/^[\r\n]+/, '');
    if (text !== '') this.#stripping = false;
    return { ...event, text, logprobs: text === '' ? null : event.logprobs };
  }
}
