// Converts the playground's state to and from its saved form. Images and failed responses are omitted. No side effects.

import type { SavedContent, SavedTurn } from '../../../../shared/wire/playground.js';
import { sent, timing } from './chat-stream.js';
import type { Answer } from './chat-stream.js';
import type { Turn } from './conversation.js';
import { NO_SETTINGS } from './settings.js';
import type { Settings } from './settings.js';

export interface Column {
  model: string;
  turns: readonly Turn[];
}

/** The content to save, with the settings as typed. A preset has no turns. */
export function contentOf(settings: Settings, columns: readonly Column[]): SavedContent {
  return {
    settings: { ...settings },
    columns: columns.map(({ model, turns }) => ({ model, turns: turns.map(savedTurn) })),
  };
}

function savedTurn(turn: Turn): SavedTurn {
  if (turn.kind === 'user')
    return {
      kind: 'user',
      text:
        turn.pictures.length === 0
          ? turn.text
          : `${turn.text}\n[${turn.pictures.length} image${turn.pictures.length === 1 ? '' : 's'} not saved]`.trim(),
    };
  const { answer, results } = turn;
  const { ttftMs, totalMs } = timing(answer, answer.endedAt ?? answer.sentAt);
  return {
    kind: 'answer',
    model: answer.model,
    text: answer.text,
    reasoning: answer.reasoning,
    finish_reason: answer.finishReason,
    calls: answer.calls.map(({ id, name, arguments: text }) => ({ id, name, arguments: text })),
    results: { ...results },
    usage: answer.usage,
    first_ms: ttftMs,
    total_ms: totalMs,
  };
}

/** The settings may have been saved by another version, so unknown settings are ignored. */
export function settingsOf({ settings, columns }: SavedContent): Settings {
  const known = Object.entries(settings).filter(([name, value]) => name in NO_SETTINGS && typeof value === 'string');
  return { ...NO_SETTINGS, ...Object.fromEntries(known), model: columns[0]?.model ?? '' };
}

/** IDs count from 1. */
export function turnsOf(turns: readonly SavedTurn[]): Turn[] {
  return turns.map(
    (turn, at): Turn =>
      turn.kind === 'user'
        ? { kind: 'user', id: at + 1, text: turn.text, pictures: [] }
        : { kind: 'answer', id: at + 1, answer: answerOf(turn), results: turn.results },
  );
}

function answerOf({
  model,
  text,
  reasoning,
  finish_reason: finishReason,
  calls,
  usage,
  first_ms: first,
  total_ms: total,
}: Extract<SavedTurn, { kind: 'answer' }>): Answer {
  return {
    ...sent(model, 0),
    state: finishReason === null ? 'stopped' : 'done',
    text,
    reasoning,
    calls,
    finishReason,
    usage,
    firstAt: first,
    answeredAt: first,
    endedAt: total ?? first ?? 0,
  };
}
