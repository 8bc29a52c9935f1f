// A response's text as Markdown. Model output becomes text nodes and a fixed set of elements, never markup. While the
// text grows, complete blocks are not re-rendered.
import { memo, useMemo, useState } from 'react';
import type { ReactNode } from 'react';
import { CopyButton } from '../components/copy.js';
import { BlockSplitter, isClosed, jsonIn, linkTo, tokensOf, withoutEntities } from './markdown.js';
import type { Definitions, MarkedToken, Token } from './markdown.js';

/** `isLive`: the text is still growing. */
export const AnswerText = memo(function AnswerText({ text, isLive }: { text: string; isLive: boolean }): ReactNode {
  const [splitter] = useState(() => new BlockSplitter());
  const json = jsonIn(text);
  if (json !== null)
    return (
      <div className="answer-text">
        <CodePart language="json" text={json.text} isClosed={json.isComplete} />
      </div>
    );
  const { blocks, definitions } = splitter.update(text, isLive);
  return (
    <div className="answer-text">
      {blocks.map(({ raw, isDone, isPlain }, index) =>
        isPlain ? (
          <AsReceived key={index} text={raw} />
        ) : (
          <BlockView key={index} raw={raw} definitions={definitions} isLive={isLive && !isDone} />
        ),
      )}
    </div>
  );
});

/** The text as received. */
export function RawText({ text }: { text: string }): ReactNode {
  return (
    <pre className="answer-raw" tabIndex={0} role="region" aria-label="Raw text">
      {text}
    </pre>
  );
}

const AsReceived = ({ text }: { text: string }): ReactNode => <p className="as-received">{text.trim()}</p>;

const BlockView = memo(function BlockView({
  raw,
  definitions,
  isLive,
}: {
  raw: string;
  definitions: Definitions;
  isLive: boolean;
}): ReactNode {
  const tokens = useMemo(() => tokensOf(raw, definitions), [raw, definitions]);
  return tokens === null ? <AsReceived text={raw} /> : views(tokens, isLive);
});

const CodePart = memo(function CodePart({
  language,
  text,
  isClosed: closed,
}: {
  language: string;
  text: string;
  isClosed: boolean;
}): ReactNode {
  return (
    <figure className="code-block">
      <figcaption>
        <span>{language === '' ? 'code' : language}</span>
        {closed && <CopyButton text={text} label="Copy" />}
      </figcaption>
      <pre tabIndex={0} role="region" aria-label="Code">
        <code>{text}</code>
      </pre>
    </figure>
  );
});

function views(tokens: readonly Token[] | undefined, isLive: boolean): ReactNode {
  return (tokens as MarkedToken[] | undefined)?.map((token, at) => view(token, at, isLive));
}

function view(token: MarkedToken, key: number, isLive: boolean): ReactNode {
  const inner = (tokens: readonly Token[] | undefined): ReactNode => views(tokens, isLive);
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading': {
      // Levels 1 and 2 are used by the page's own headings.
      const Heading = `h${Math.min(6, token.depth + 2)}` as 'h3';
      return (
        <Heading key={key} className={token.depth <= 2 ? 'large' : undefined}>
          {inner(token.tokens)}
        </Heading>
      );
    }
    case 'paragraph':
      return <p key={key}>{inner(token.tokens)}</p>;
    case 'code':
      return (
        <CodePart
          key={key}
          language={(token.lang ?? '').split(/\s/)[0]?.slice(0, 30) ?? ''}
          text={token.text}
          isClosed={!isLive || isClosed(token.raw)}
        />
      );
    case 'blockquote':
      return <blockquote key={key}>{inner(token.tokens)}</blockquote>;
    case 'hr':
      return <hr key={key} />;
    case 'list': {
      const items = token.items.map((item, at) => (
        <li key={at} className={item.task ? 'task' : undefined}>
          {inner(item.tokens)}
        </li>
      ));
      return token.ordered ? (
        <ol key={key} start={Number(token.start)}>
          {items}
        </ol>
      ) : (
        <ul key={key}>{items}</ul>
      );
    }
    case 'checkbox':
      return (
        <input
          key={key}
          type="checkbox"
          checked={token.checked}
          disabled
          aria-label={token.checked ? 'done' : 'open'}
        />
      );
    case 'table':
      return (
        <div key={key} className="table-frame" tabIndex={0} role="region" aria-label="Table">
          <table>
            <thead>
              <tr>
                {token.header.map(({ tokens, align }, at) => (
                  <th key={at} scope="col" className={align ?? undefined}>
                    {inner(tokens)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {token.rows.map((cells, row) => (
                <tr key={row}>
                  {cells.map(({ tokens, align }, at) => (
                    <td key={at} className={align ?? undefined}>
                      {inner(tokens)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    case 'html':
      return token.block ? <AsReceived key={key} text={token.text} /> : token.text;
    case 'text':
      return token.tokens === undefined ? withoutEntities(token.text) : <span key={key}>{inner(token.tokens)}</span>;
    case 'escape':
      return token.text;
    case 'strong':
      return <strong key={key}>{inner(token.tokens)}</strong>;
    case 'em':
      return <em key={key}>{inner(token.tokens)}</em>;
    case 'del':
      return <del key={key}>{inner(token.tokens)}</del>;
    case 'codespan':
      return <code key={key}>{token.text}</code>;
    case 'br':
      return <br key={key} />;
    case 'link':
      return (
        <Link key={key} href={token.href} raw={token.raw}>
          {inner(token.tokens)}
        </Link>
      );
    case 'image':
      // The image is not loaded, because loading it would reveal to another host that the response was read.
      return (
        <Link key={key} href={token.href} raw={token.raw}>
          Image: {token.text === '' ? token.href : withoutEntities(token.text)}
        </Link>
      );
    default:
      return (token as Token).raw;
  }
}

/** A link, or its source text if the address may not be opened. */
function Link({ href, raw, children }: { href: string; raw: string; children: ReactNode }): ReactNode {
  const to = linkTo(href);
  return to === null ? (
    raw
  ) : (
    <a href={to} title={to} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}
