// One response: thinking, text, tool calls with fields for their results, finish reason and usage.
import { useId, useState } from 'react';
import type { ReactNode } from 'react';
import { Badge } from '../components/badge.js';
import { Button } from '../components/button.js';
import { TextArea } from '../components/field.js';
import { Icon } from '../components/icon.js';
import { count, duration, plural } from '../format.js';
import { timing } from './chat-stream.js';
import type { Answer, Call, Problem } from './chat-stream.js';
import { TokenView } from './token-view.js';
import { AnswerText, RawText } from './answer-text.js';
import { prettyJson } from './settings.js';

export function AnswerView({
  answer,
  results,
  onResults,
  actions,
}: {
  answer: Answer;
  /** Buttons at the bottom of the response. */
  actions?: ReactNode;
  /** Results of the response's tool calls, once they have been sent. */
  results: Readonly<Record<string, string>>;
  /** Absent if tool results cannot be entered at the moment. */
  onResults?: (results: Record<string, string>) => void;
}): ReactNode {
  const live = answer.endedAt === null;
  const [isRaw, setRaw] = useState(false);
  const label = isRaw ? 'Show formatted text' : 'Show raw text';
  return (
    <article className="turn answer" aria-label={`Response of ${answer.model}`} aria-busy={live}>
      <header className="turn-head">
        <span className="turn-who">{answer.model}</span>
        {answer.tokens.length === 0 && answer.text !== '' && (
          <button type="button" className="icon-button" aria-label={label} title={label} onClick={() => setRaw(!isRaw)}>
            <Icon name={isRaw ? 'playground' : 'code'} />
          </button>
        )}
      </header>
      {answer.reasoning !== '' && <Thinking answer={answer} />}
      {answer.state === 'sent' && (
        <p className="waiting" role="status">
          <span className="spinner" aria-hidden="true" /> Waiting for the first token
        </p>
      )}
      {answer.tokens.length > 0 ? (
        <TokenView tokens={answer.tokens} />
      ) : (
        answer.text !== '' && (isRaw ? <RawText text={answer.text} /> : <AnswerText text={answer.text} isLive={live} />)
      )}
      {answer.calls.length > 0 && <Calls calls={answer.calls} live={live} results={results} onResults={onResults} />}
      {answer.state === 'done' && answer.text === '' && answer.calls.length === 0 && (
        <p className="muted">The model returned no text.</p>
      )}
      {answer.problem !== null && <ProblemNotice problem={answer.problem} />}
      {!live && <Footer answer={answer} actions={actions} />}
    </article>
  );
}

/**
 * The thinking section opens while the model is thinking, and closes when the response text starts. After that, it
 * stays in the state that the user chooses.
 */
function Thinking({ answer }: { answer: Answer }): ReactNode {
  const [chosen, setChosen] = useState<boolean | null>(null);
  const id = useId();
  const thinks = answer.endedAt === null && answer.answeredAt === null;
  const open = chosen ?? thinks;
  const { thinkingMs } = timing(answer, performance.now());
  const tokens = answer.usage?.reasoning;
  return (
    <section className="thinking">
      <button
        type="button"
        className="thinking-head"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setChosen(!open)}
      >
        <Icon name="brain" />
        <span>
          {thinks
            ? 'Thinking'
            : thinkingMs === null || thinkingMs < 1
              ? 'Thought'
              : `Thought for ${duration(thinkingMs)}`}
        </span>
        {tokens !== undefined && tokens > 0 && <span className="muted">{plural(tokens, 'token')}</span>}
        {thinks && <span className="spinner" aria-hidden="true" />}
        <span className={open ? 'thinking-mark open' : 'thinking-mark'}>
          <Icon name="chevron" />
        </span>
      </button>
      <div id={id} className="thinking-text" hidden={!open}>
        {answer.reasoning.trim()}
      </div>
    </section>
  );
}

function Calls({
  calls,
  live,
  results,
  onResults,
}: {
  calls: readonly Call[];
  live: boolean;
  results: Readonly<Record<string, string>>;
  onResults: ((results: Record<string, string>) => void) | undefined;
}): ReactNode {
  const [drafts, setDrafts] = useState<Record<string, string>>({});
  const give = (): void => onResults?.(Object.fromEntries(calls.map(({ id }) => [id, drafts[id] ?? ''])));
  return (
    <form
      className="calls"
      onSubmit={(event) => {
        event.preventDefault();
        give();
      }}
    >
      {calls.map((call, index) => (
        <section key={index} className="call" aria-label={`Tool call ${call.name}`}>
          <header className="call-head">
            <Icon name="tool" />
            <code className="call-name">{call.name}</code>
            <span className="call-id muted">{call.id}</span>
            {live && <span className="spinner" aria-hidden="true" />}
          </header>
          <pre className="call-arguments" tabIndex={0} role="region" aria-label={`Arguments of ${call.name}`}>
            <code>{prettyJson(call.arguments)}</code>
          </pre>
          {results[call.id] !== undefined && (
            <div className="call-result">
              <span className="muted">Result</span>
              <pre tabIndex={0} role="region" aria-label={`Result of ${call.name}`}>
                <code>{results[call.id] === '' ? '(empty)' : results[call.id]}</code>
              </pre>
            </div>
          )}
          {onResults !== undefined && (
            <TextArea
              label={`Result of ${call.name}`}
              rows={2}
              autoFocus={index === 0}
              className="mono"
              placeholder="What the tool returns, e.g. 14 °C, light rain"
              value={drafts[call.id] ?? ''}
              onChange={(event) => setDrafts({ ...drafts, [call.id]: event.target.value })}
              onKeyDown={(event) => {
                if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
                event.preventDefault();
                event.currentTarget.form?.requestSubmit();
              }}
            />
          )}
        </section>
      ))}
      {onResults !== undefined && (
        <div className="call-actions">
          <Button type="submit" variant="primary" size="small">
            <Icon name="play" /> Continue with {calls.length === 1 ? 'this result' : 'these results'}
          </Button>
          <span className="hint">Tools don't run here; enter the result yourself.</span>
        </div>
      )}
    </form>
  );
}

function ProblemNotice({ problem }: { problem: Problem }): ReactNode {
  const { message, code, param, status, requestId, retryAfterS } = problem;
  return (
    <div className="notice danger" role="alert">
      <Icon name="warning" />
      <div>
        <p>{message}</p>
        <p className="problem-facts">
          {status !== null && status > 0 && <span>HTTP {status}</span>}
          {code !== null && <code>{code}</code>}
          {param !== null && (
            <span>
              field <code>{param}</code>
            </span>
          )}
          {retryAfterS !== undefined && <span>try again in {plural(Math.ceil(retryAfterS), 'second')}</span>}
          {requestId !== null && (
            <span>
              request <code>{requestId}</code>
            </span>
          )}
        </p>
      </div>
    </div>
  );
}

const ENDS: Record<string, string> = { stop: 'End of turn', tool_calls: 'Tool calls', length: 'Stopped at max tokens' };

function Footer({ answer, actions }: { answer: Answer; actions: ReactNode }): ReactNode {
  const { usage, finishReason, state } = answer;
  const { ttftMs, tokensPerS, totalMs } = timing(answer, performance.now());
  return (
    <footer className="answer-foot">
      <div className="answer-facts">
        {state === 'stopped' && <Badge tone="neutral">Stopped by you</Badge>}
        {finishReason !== null && (
          <Badge tone={finishReason === 'length' ? 'warn' : 'neutral'}>{ENDS[finishReason] ?? finishReason}</Badge>
        )}
        <dl className="usage-facts" aria-label="Usage">
          {usage !== null && (
            <>
              <div>
                <dt>Prompt</dt>
                <dd>{count(usage.prompt)}</dd>
              </div>
              <div>
                <dt>Cached</dt>
                <dd>{count(usage.cached)}</dd>
              </div>
              <div>
                <dt>Completion</dt>
                <dd>{count(usage.completion)}</dd>
              </div>
              {usage.reasoning > 0 && (
                <div>
                  <dt>Reasoning</dt>
                  <dd>{count(usage.reasoning)}</dd>
                </div>
              )}
            </>
          )}
          {ttftMs !== null && (
            <div>
              <dt title="Time to first token">TTFT</dt>
              <dd>{duration(ttftMs)}</dd>
            </div>
          )}
          {tokensPerS !== null && (
            <div>
              <dt>Speed</dt>
              <dd>{tokensPerS < 100 ? tokensPerS.toFixed(1) : count(tokensPerS)} tokens/s</dd>
            </div>
          )}
          <div>
            <dt>Total</dt>
            <dd>{duration(totalMs)}</dd>
          </div>
        </dl>
      </div>
      {actions !== undefined && <div className="turn-actions">{actions}</div>}
    </footer>
  );
}
