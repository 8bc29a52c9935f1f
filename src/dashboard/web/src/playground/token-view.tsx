// Shows a response's tokens on backgrounds that depend on their probability. Alternatives appear on hover, focus or
// touch.
import { memo, useId, useState } from 'react';
import type { KeyboardEvent, ReactNode } from 'react';
import type { TokenLogprob } from './chat-wire.js';
import { levelOf, percent } from './token-levels.js';

/** Makes whitespace visible. */
const visible = (token: string): string => token.replaceAll('\n', '⏎').replaceAll('\t', '⇥').replaceAll(' ', '␣');

export const TokenView = memo(function TokenView({ tokens }: { tokens: readonly TokenLogprob[] }): ReactNode {
  const [at, setAt] = useState<number | null>(null);
  const id = useId();
  const shown = at === null ? undefined : tokens[at];
  // All tokens share one tab stop; arrow keys move between them.
  const move = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    setAt(Math.min(tokens.length - 1, Math.max(0, (at ?? -1) + step)));
  };
  return (
    <div className="tokens">
      <div
        className="tokens-text"
        role="group"
        tabIndex={0}
        aria-label="Tokens with their probabilities"
        aria-describedby={id}
        onKeyDown={move}
      >
        {tokens.map(({ token, logprob }, index) => (
          <span
            key={index}
            className={`token ${levelOf(logprob)}${index === at ? ' chosen' : ''}`}
            onMouseEnter={() => setAt(index)}
            onClick={() => setAt(index)}
          >
            {token}
          </span>
        ))}
      </div>
      <div id={id} className="token-facts" aria-live="polite">
        {shown === undefined ? (
          <span className="muted">
            Point at a token to see its probability. A darker background means less probable.
          </span>
        ) : (
          <Facts token={shown} />
        )}
      </div>
    </div>
  );
});

function Facts({ token: { token, logprob, top_logprobs: top = [] } }: { token: TokenLogprob }): ReactNode {
  const others = top.filter((one) => one.token !== token);
  return (
    <>
      <span>
        <code>{visible(token)}</code> <strong>{percent(logprob)}</strong>
      </span>
      {others.length > 0 && (
        <ul aria-label="Alternatives">
          {others.map((one, index) => (
            <li key={index}>
              <code>{visible(one.token)}</code> {percent(one.logprob)}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
