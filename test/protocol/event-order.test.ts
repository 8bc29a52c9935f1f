// Tests the order of a response's events: every event at every stage, and the error for an event out of order.
import t from 'tap';
import { EventOrder, type ChoiceEvent } from '../../src/protocol/chat-completions/event-order.js';

const text: ChoiceEvent = { type: 'text', choice: 0, section: 'content', text: 'x', tokens: 1, logprobs: null };
const started = (index: number): ChoiceEvent => ({ type: 'call_started', choice: 0, index, name: 'f', tokens: 1 });
const part = (index: number): ChoiceEvent => ({ type: 'call_arguments', choice: 0, index, text: '{', tokens: 1 });
const closed = (index: number): ChoiceEvent => ({ type: 'call_finished', choice: 0, index, complete: true, tokens: 1 });
const finished: ChoiceEvent = {
  type: 'finished',
  choice: 0,
  reason: 'end_of_turn',
  stopString: null,
  completionTokens: 1,
  reasoningTokens: 0,
  calls: 0,
  timings: { prefillMs: 1, decodeMs: 1 },
};

/** Events to try at each stage. allowed() returns the indices of the events that may come next. */
const ALL: readonly ChoiceEvent[] = [
  text,
  started(0),
  started(1),
  started(2),
  part(0),
  part(1),
  closed(0),
  closed(1),
  finished,
];
const allowed = (before: readonly ChoiceEvent[]): number[] =>
  [...ALL.keys()].filter((at) => {
    const order = new EventOrder(1);
    for (const event of before) order.take(event);
    try {
      order.take(ALL[at]!);
      return true;
    } catch {
      return false;
    }
  });

t.test('each stage allows only certain events', (t) => {
  t.same(allowed([]), [0, 1, 8]);
  t.same(allowed([text]), [0, 1, 8]);
  t.same(allowed([started(0)]), [4, 6], "within a call, only that call's events are allowed");
  t.same(allowed([text, started(0), part(0)]), [4, 6]);
  t.same(allowed([started(0), closed(0)]), [0, 2, 8], 'the next call must have the next number');
  t.same(allowed([started(0), closed(0), started(1)]), [5, 7]);
  t.same(allowed([finished]), []);
  t.end();
});

t.test('the first event of each choice and the unfinished choices are tracked', (t) => {
  const order = new EventOrder(2);
  t.equal(order.take(text), true);
  t.equal(order.take(text), false);
  t.equal(order.take({ ...started(0), choice: 1 } as ChoiceEvent), true);
  t.equal(order.take({ ...closed(0), choice: 1 } as ChoiceEvent), false);
  t.throws(() => order.complete(), /choice 0 did not/);
  order.take(finished);
  t.throws(() => order.complete(), /choice 1 did not/);
  order.take({ ...finished, choice: 1 } as ChoiceEvent);
  t.doesNotThrow(() => order.complete());
  t.throws(() => order.take(text), /^text of choice 0 after its end, with 0 calls opened$/);
  t.throws(
    () => order.take({ ...started(3), choice: 1 } as ChoiceEvent),
    /call_started 3 of choice 1 after its end, with 1 calls opened/,
  );
  t.throws(() => order.take({ ...text, choice: 2 }), /text of choice 2 that was not requested/);
  t.equal(new EventOrder(1).take(finished), true, 'an empty response is allowed');
  t.end();
});
