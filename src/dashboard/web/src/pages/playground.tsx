// A conversation with a model as the API has it: streaming, thinking, tools, pictures, and the code for the same.
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react';
import type { ReactNode } from 'react';
import type { DashboardModel } from '../../../../wire/dashboard.js';
import { API, ApiFailure, messageOf, send } from '../api.js';
import { Button, LinkButton } from '../components/button.js';
import { Icon } from '../components/icon.js';
import { Code, PageHeader } from '../components/page.js';
import { EmptyState, Loaded, Notice, Skeleton } from '../components/states.js';
import { CodeDialog } from '../playground/code-dialog.js';
import { Composer } from '../playground/composer.js';
import { beforeLastAnswer, openCalls } from '../playground/conversation.js';
import type { Turn } from '../playground/conversation.js';
import { bodyOf, Dialogue } from '../playground/dialogue.js';
import { SettingsPanel } from '../playground/settings-panel.js';
import { NO_SETTINGS, readSettings } from '../playground/settings.js';
import type { Settings } from '../playground/settings.js';
import { Transcript } from '../playground/transcript.js';
import { useModels } from '../queries.js';
import { useOrganization } from '../session.js';
import '../styles/playground.css';

export function Playground(): ReactNode {
  const organization = useOrganization();
  const models = useModels();
  if (!organization.may('developer')) {
    return (
      <>
        <PageHeader title="Playground" />
        <EmptyState icon="playground" title="Not for your role">
          Requests count towards the organization's limits and usage: developers and above can make them here. Ask an admin to change your role.
        </EmptyState>
      </>
    );
  }
  return (
    <Loaded query={models} loading={<><PageHeader title="Playground" /><Skeleton rows={4} height={32} /></>}>
      {(data) => {
        const served = data.filter(({ lifecycle }) => lifecycle !== 'retired');
        return served.length === 0
          ? <><PageHeader title="Playground" /><EmptyState icon="models" title="No model is served">The operator has not given this server a model yet.</EmptyState></>
          : <Room models={served} organizationId={organization.id} />;
      }}
    </Loaded>
  );
}

// By organization, as long as the page is open: going to another page and back finds the conversation again.
const dialogues = new Map<string, Dialogue>();

function dialogueOf(organizationId: string): Dialogue {
  let dialogue = dialogues.get(organizationId);
  if (dialogue === undefined) {
    dialogue = new Dialogue({
      schedule: (tell) => { requestAnimationFrame(tell); },
      open: (body, signal) => send('POST', `${API}/organizations/${organizationId}/playground`, { body, signal, headers: { Accept: 'text/event-stream' } }),
      problemOf: (error) => (error instanceof ApiFailure
        ? {
            message: error.message, code: error.code, param: error.param, status: error.status, requestId: error.requestId,
            ...(error.retryAfterMs === null ? {} : { retryAfterS: error.retryAfterMs / 1000 }),
          }
        : { message: error instanceof TypeError ? 'The connection was lost before the answer was complete.' : messageOf(error), code: null, param: null, status: null, requestId: null }),
    });
    dialogues.set(organizationId, dialogue);
  }
  return dialogue;
}

const STORED = 'monolith.playground';

function storedSettings(): Settings {
  try {
    const stored = JSON.parse(localStorage.getItem(STORED) ?? '{}') as Partial<Record<keyof Settings, unknown>>;
    const known = Object.entries(stored).filter(([name, value]) => name in NO_SETTINGS && typeof value === 'string');
    return { ...NO_SETTINGS, ...Object.fromEntries(known) };
  } catch {
    return NO_SETTINGS;
  }
}

function Room({ models, organizationId }: { models: readonly DashboardModel[]; organizationId: string }): ReactNode {
  const dialogue = dialogueOf(organizationId);
  const { turns, running } = useSyncExternalStore(dialogue.subscribe, dialogue.state);
  const [chosen, setSettings] = useState(storedSettings);
  const [code, setCode] = useState(false);
  const [said, setSaid] = useState('');
  const settings = useMemo(() => (models.some(({ id }) => id === chosen.model) ? chosen : { ...chosen, model: firstModel(models) }), [models, chosen]);
  const model = models.find(({ id }) => id === settings.model);
  const read = useMemo(() => readSettings(withoutForeignEffort(settings, model)), [settings, model]);
  const problems = 'problems' in read ? read.problems : {};
  const ask = 'fields' in read ? { system: settings.system, fields: read.fields } : null;
  const sees = model?.input_modalities.includes('image') ?? false;
  const waitsForResults = openCalls(turns).length > 0;
  const composer = useRef<HTMLTextAreaElement>(null);

  const change = (next: Settings): void => {
    setSettings(next);
    try {
      localStorage.setItem(STORED, JSON.stringify(next));
    } catch {
      // for this visit, then
    }
  };
  const start = (answer: Promise<void>): void => {
    setSaid('');
    void answer.then(() => setSaid(outcome(dialogue)));
  };

  useEffect(() => {
    const stop = (event: KeyboardEvent): void => {
      if (event.key !== 'Escape' || document.querySelector('dialog[open]') !== null) return;
      dialogue.stop();
    };
    window.addEventListener('keydown', stop);
    return () => window.removeEventListener('keydown', stop);
  }, [dialogue]);
  useEffect(() => () => dialogue.stop(), [dialogue]);      // nobody reads it any more

  const again = ask === null || running || turns.length === 0 ? undefined : () => start(dialogue.regenerate(ask));
  return (
    <div className="playground">
      <PageHeader title="Playground" actions={
        <>
          <Button size="small" onClick={() => setCode(true)} disabled={ask === null}><Icon name="code" /> View code</Button>
          <Button size="small" onClick={() => { dialogue.clear(); setSaid('Conversation cleared'); composer.current?.focus(); }} disabled={turns.length === 0}><Icon name="trash" /> Clear</Button>
        </>
      } />
      <div className="playground-room">
        <section className="conversation" aria-label="Conversation">
          <Transcript
            turns={turns} running={running} onRegenerate={again}
            onEdit={ask === null || running ? undefined : (id, text) => start(dialogue.sayInstead(id, text, ask))}
            onResults={ask === null || running ? undefined : (results) => start(dialogue.giveResults(results, ask))}
            empty={<Welcome model={model} onSay={ask === null ? undefined : (text) => start(dialogue.say(text, [], ask))} />}
          />
          {model !== undefined && model.state !== 'ready' && <Notice tone="warn">{STATE_TEXTS[model.state]}</Notice>}
          <Composer
            ref={composer} running={running} sees={sees} modelName={settings.model}
            blocked={waitsForResults ? 'Give the result of the tool above, then go on.' : ask === null ? 'Something in the settings is not right yet.' : null}
            onSay={(text, pictures) => { if (ask !== null) start(dialogue.say(text, pictures, ask)); }}
            onStop={() => dialogue.stop()}
          />
        </section>
        <SettingsFrame>
          <SettingsPanel models={models} settings={settings} problems={problems} onChange={(part) => change({ ...settings, ...part })} onReset={() => change({ ...NO_SETTINGS, model: settings.model })} />
        </SettingsFrame>
      </div>
      <p className="visually-hidden" role="status">{said}</p>
      {code && ask !== null && <CodeDialog body={bodyOf(ask, requestTurns(turns))} onClose={() => setCode(false)} />}
    </div>
  );
}

/** At the side on wide screens; folded away on narrow ones. */
function SettingsFrame({ children }: { children: ReactNode }): ReactNode {
  const [wide, setWide] = useState(() => matchMedia(WIDE).matches);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const query = matchMedia(WIDE);
    const follow = (): void => setWide(query.matches);
    query.addEventListener('change', follow);
    return () => query.removeEventListener('change', follow);
  }, []);
  if (wide) return <aside className="settings-side" aria-label="Settings">{children}</aside>;
  return (
    <details className="settings-fold" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><Icon name="settings" /> Model and settings</summary>
      {children}
    </details>
  );
}
const WIDE = '(min-width: 1100px)';

const STATE_TEXTS: Record<DashboardModel['state'], string> = {
  loading: 'This model is still loading: requests are refused until it is ready.',
  failed: 'This model could not be loaded. Choose another one.',
  idle: 'Nobody has asked for this model lately: the first answer waits until it is loaded.',
  unloaded: 'This model is not loaded. Choose another one.',
  ready: '',
};

/** What a model can do with: any that was trained for more than to show the service, and one that was not. */
const IDEAS = ['What is a prefix cache?', 'Write a haiku about a lighthouse.', 'What is 17 times 23?'];
const SMALL_IDEAS = [
  'Hello!', 'Who are you?', 'What is the capital of France?', 'What is 7 plus 5?', 'List three fruits.',
  'Extract name, city, item as JSON.\n\nNoor from Perth ordered 3 lamps on 5 May.',
];

function Welcome({ model, onSay }: { model: DashboardModel | undefined; onSay: ((text: string) => void) | undefined }): ReactNode {
  const small = model?.demonstration === true;
  const ideas = small ? SMALL_IDEAS : IDEAS;
  return (
    <div className="state">
      <span className="state-icon"><Icon name="playground" size={24} /></span>
      <h2>Say something to {model?.display_name ?? 'a model'}</h2>
      {small && <div className="state-text">A small demonstration model, trained here: it holds a short conversation and does small tasks. For a real one, the operator runs <Code>monolith pull OWNER/REPO</Code>.</div>}
      <div className="state-text">Requests here count towards the organization's limits and usage like any other.</div>
      <div className="ideas">{ideas.map((idea) => <Button key={idea} size="small" disabled={onSay === undefined} onClick={() => onSay?.(idea)}>{idea}</Button>)}</div>
      <LinkButton href="/models" variant="ghost" size="small">About the models</LinkButton>
    </div>
  );
}

function firstModel(models: readonly DashboardModel[]): string {
  return (models.find(({ state, lifecycle }) => state === 'ready' && lifecycle === 'active') ?? models.find(({ state }) => state === 'ready') ?? models[0])?.id ?? '';
}

/** What was sent for the last answer. */
function requestTurns(turns: readonly Turn[]): readonly Turn[] {
  return turns.at(-1)?.kind === 'answer' ? beforeLastAnswer(turns) : turns;
}

// An effort chosen for one model means nothing to another that does not have it.
function withoutForeignEffort(settings: Settings, model: DashboardModel | undefined): Settings {
  return model === undefined || model.reasoning_efforts.includes(settings.effort) ? settings : { ...settings, effort: '' };
}

/** For screen readers: a stream is not read out as it comes. */
function outcome(dialogue: Dialogue): string {
  const last = dialogue.state().turns.at(-1);
  if (last?.kind !== 'answer') return '';
  const { state, calls } = last.answer;
  if (state === 'failed') return 'The answer failed.';
  if (state === 'stopped') return 'Stopped.';
  return calls.length > 0 ? 'The model calls a tool and waits for its result.' : 'The answer is complete.';
}
