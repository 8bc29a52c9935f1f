// A response's text: code blocks are separated, the rest is shown as received. Model output only ever becomes text
// nodes. While the text grows, complete paragraphs are not rendered again.
import { memo } from 'react';
import type { ReactNode } from 'react';
import { CopyButton } from '../components/copy.js';
import { blocksOf, inlinesOf } from './markdown.js';

export const AnswerText = memo(function AnswerText({ text }: { text: string }): ReactNode {
  return (
    <div className="answer-text">
      {blocksOf(text).map((block, index) =>
        block.kind === 'code' ? (
          <CodePart key={index} language={block.language} text={block.text} closed={block.closed} />
        ) : (
          block.text.split(/\n{2,}/).map((paragraph, at) => <TextPart key={`${index} ${at}`} text={paragraph} />)
        ),
      )}
    </div>
  );
});

const CodePart = memo(function CodePart({
  language,
  text,
  closed,
}: {
  language: string;
  text: string;
  closed: boolean;
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

const TextPart = memo(function TextPart({ text }: { text: string }): ReactNode {
  return (
    <p>{inlinesOf(text).map((inline, at) => (inline.code ? <code key={at}>{inline.text}</code> : inline.text))}</p>
  );
});
