// The request as code, in each language.
import { useState } from 'react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { CodeBlock } from '../components/copy.js';
import { Dialog } from '../components/dialog.js';
import { Tabs } from '../components/tabs.js';
import type { ChatBody } from './chat-wire.js';
import { codeFor, KEY_VARIABLE, LANGUAGES } from './code.js';
import type { Language } from './code.js';

export function CodeDialog({ body, onClose }: { body: ChatBody; onClose: () => void }): ReactNode {
  const [language, setLanguage] = useState<Language>('curl');
  return (
    <Dialog title="The same in code" onClose={onClose} size="wide">
      <p className="hint">
        {body.messages.some(({ role }) => role === 'user')
          ? 'The request of the last answer'
          : 'The settings, with no message yet'}
        , sent with an API key that is read from <code>{KEY_VARIABLE}</code>. Keys are made on the page{' '}
        <Link href="/keys">API keys</Link>.
      </p>
      <Tabs<Language>
        label="Language"
        value={language}
        onChange={setLanguage}
        tabs={LANGUAGES.map(({ id, label }) => ({
          value: id,
          label,
          content: <CodeBlock label={label} code={codeFor(id, body, location.origin)} />,
        }))}
      />
    </Dialog>
  );
}
