// Reads responses in the chat completions format, streamed or not. Reasoning arrives as `reasoning_content`
// (llama-server, SGLang, DeepSeek, older vLLM) or `reasoning` (vLLM, Ollama, OpenRouter). One instance per response.
// Event-loop thread only.
import type { AnswerEvents } from '../answer-events.js';
import type { UpstreamFault } from '../fault.js';
import {
  argumentsIn,
  batchesIn,
  bearer,
  listIn,
  objectIn,
  placeIn,
  textIn,
  type AnswerReader,
  type Json,
  type UpstreamApi,
} from './api.js';
import { endOf, isEnd, partsIn, textWithLogprobs, usageIn } from './chat-parts.js';
import { chatBody, chatHolds } from './chat-request.js';

export const chatCompletions: UpstreamApi = {
  path: '/chat/completions',
  takesBack: 'text',
  takesPrediction: true,
  body: chatBody,
  holds: chatHolds,
  headers: bearer,
  reader: (answer, fault) => new ChatReader(answer, fault),
};

class ChatReader implements AnswerReader {
  /** The latest call of each choice. Some upstreams give every call the index 0 and distinguish calls only by ID. */
  readonly #calls = new Map<number, { key: number; number: number | null; id: string }>();

  constructor(
    private readonly answer: AnswerEvents,
    private readonly fault: (error: unknown) => UpstreamFault,
  ) {}

  *event(_name: string | null, event: Json): Generator<void, void> {
    yield* this.#piece(event, false);
  }

  done(): void {
    this.answer.finish();
  }

  *whole(answer: unknown): Generator<void, void> {
    yield* this.#piece(objectIn(answer), true);
    this.answer.finish();
  }

  end(): void {
    this.answer.finish();
  }

  *#piece(piece: Json, isWhole: boolean): Generator<void, void> {
    if (piece['error'] != null) throw this.fault(piece['error']);
    if (piece['usage'] != null) this.answer.usage(usageIn(piece['usage']));
    for (const entry of listIn(piece['choices'])) {
      const choice = objectIn(entry);
      const index = placeIn(choice['index']);
      const ends = isEnd(choice['finish_reason']);
      // Some upstreams send the final chunk twice, with the usage only in the second one.
      if (ends && this.answer.hasEnded(index)) continue;
      // Some upstreams send a complete message in a stream's last chunk. It is used only if no delta arrived.
      const message =
        isWhole || (choice['delta'] == null && this.answer.isEmpty(index)) ? choice['message'] : choice['delta'];
      yield* this.#content(index, objectIn(message), choice);
      if (!ends) continue;
      const { reason, stopString } = endOf(choice, this.answer.stop);
      this.answer.ended(index, reason, stopString);
    }
  }

  *#content(index: number, delta: Json, choice: Json): Generator<void, void> {
    const { answer } = this;
    const reasoning = textIn(delta['reasoning_content']) || textIn(delta['reasoning']);
    if (reasoning !== '') answer.text(index, 'reasoning', reasoning);
    const given = delta['content'];
    let content = textIn(given);
    if (typeof given === 'object' && given !== null) {
      const parts = partsIn(given);
      if (reasoning === '') answer.text(index, 'reasoning', parts.reasoning);
      ({ content } = parts);
    }
    yield* textWithLogprobs(
      answer,
      index,
      content || textIn(delta['refusal']),
      batchesIn(objectIn(choice['logprobs'])['content']),
    );
    for (const [at, entry] of listIn(delta['tool_calls']).entries()) this.#call(index, objectIn(entry), at);
  }

  /**
   * A chunk with a name starts a call, unless it repeats the latest call's name. A chunk without a name continues the
   * latest call.
   */
  #call(index: number, call: Json, at: number): void {
    const { name, arguments: given } = objectIn(call['function']);
    const newest = this.#calls.get(index);
    const number = typeof call['index'] === 'number' ? placeIn(call['index']) : null;
    const id = textIn(call['id']);
    const isSame =
      newest !== undefined &&
      (number ?? newest.number ?? at) === (newest.number ?? at) &&
      (id === '' || id === newest.id);
    if (!isSame) {
      const key = (newest?.key ?? -1) + 1;
      this.#calls.set(index, { key, number, id });
      this.answer.call(index, key, textIn(name));
    }
    const text = argumentsIn(given);
    if (text !== '') this.answer.callArguments(index, this.#calls.get(index)?.key ?? 0, text);
  }
}
