import t from 'tap';
import { tighter, type LimitState } from '../../src/admission/headers.js';

const state = (limit: number, remaining: number): LimitState => ({
  requests: { limit, remaining, resetMs: 1 },
  tokens: { limit, remaining, resetMs: 1 },
  concurrency: { limit, remaining },
});

t.test('of two limits the one with less left', (t) => {
  t.same(tighter(state(10, 3), state(5, 4)), state(10, 3));
  t.same(tighter(state(5, 4), state(10, 3)), state(10, 3));
  t.end();
});

t.test('with as much left in both, the smaller limit, whichever comes first', (t) => {
  t.same(tighter(state(10, 3), state(5, 3)), state(5, 3));
  t.same(tighter(state(5, 3), state(10, 3)), state(5, 3));
  t.same(tighter(state(5, 3), state(5, 3)), state(5, 3));
  t.end();
});

t.test('the one there is, each of the three for itself', (t) => {
  const off: LimitState = { requests: null, tokens: null, concurrency: null };
  t.same(tighter(off, state(5, 3)), state(5, 3));
  t.same(tighter(state(5, 3), off), state(5, 3));
  t.same(tighter(off, off), off);
  t.same(tighter({ ...state(5, 3), tokens: null }, { ...state(4, 4), requests: null }), {
    ...state(5, 3),
    tokens: { limit: 4, remaining: 4, resetMs: 1 },
  });
  t.end();
});
