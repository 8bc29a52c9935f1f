import t from 'tap';
import { tighter, type LimitState } from '../../src/admission/headers.js';

const state = (limit: number, remaining: number): LimitState => ({
  requests: { limit, remaining, resetMs: 1 },
  tokens: { limit, remaining, resetMs: 1 },
  concurrency: { limit, remaining },
});

t.test('headers show the limit with less remaining', (t) => {
  t.same(tighter(state(10, 3), state(5, 4)), state(10, 3));
  t.same(tighter(state(5, 4), state(10, 3)), state(10, 3));
  t.end();
});

t.test('headers show the smaller limit if both have the same remaining, in either order', (t) => {
  t.same(tighter(state(10, 3), state(5, 3)), state(5, 3));
  t.same(tighter(state(5, 3), state(10, 3)), state(5, 3));
  t.same(tighter(state(5, 3), state(5, 3)), state(5, 3));
  t.end();
});

t.test('headers show the only limit, for each of the three kinds', (t) => {
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
