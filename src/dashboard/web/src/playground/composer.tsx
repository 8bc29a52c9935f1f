// Message input: Enter sends, Shift+Enter inserts a line break, Escape stops the response. Images can be dropped,
// pasted or chosen.
import { useId, useRef, useState } from 'react';
import type { DragEvent, ReactNode, Ref } from 'react';
import { messageOf } from '../api.js';
import { Button } from '../components/button.js';
import { Icon } from '../components/icon.js';
import type { Picture } from './conversation.js';
import { imageFiles, PICTURE_TYPES, readPictures } from './pictures.js';

interface Props {
  running: boolean;
  /** Whether the model accepts images. `model` is its name. */
  sees: boolean;
  model: string;
  /** Name of the model or models that receive the message. */
  modelName: string;
  /** Why no message can be sent at the moment; null if sending is possible. */
  blocked: string | null;
  onSay: (text: string, pictures: readonly Picture[]) => void;
  onStop: () => void;
  ref?: Ref<HTMLTextAreaElement>;
}

export function Composer({ running, sees, model, modelName, blocked, onSay, onStop, ref }: Props): ReactNode {
  const [text, setText] = useState('');
  const [pictures, setPictures] = useState<readonly Picture[]>([]);
  const [problem, setProblem] = useState<string | null>(null);
  const [over, setOver] = useState(false);
  const files = useRef<HTMLInputElement>(null);
  const hint = useId();
  const empty = text.trim() === '' && pictures.length === 0;

  const add = (list: readonly File[]): void => {
    if (list.length === 0) return;
    if (!sees) {
      setProblem(`${model} accepts text only. Remove the images or choose another model.`);
      return;
    }
    readPictures(list, pictures).then(
      (more) => {
        setPictures((old) => [...old, ...more]);
        setProblem(null);
      },
      (error: unknown) => setProblem(messageOf(error)),
    );
  };
  const say = (): void => {
    if (empty || running || blocked !== null) return;
    onSay(text, pictures);
    setText('');
    setPictures([]);
    setProblem(null);
  };
  const drag = (event: DragEvent): void => {
    if (![...event.dataTransfer.types].includes('Files')) return;
    event.preventDefault();
    setOver(event.type === 'dragover');
    if (event.type === 'drop') add(imageFiles(event.dataTransfer));
  };
  return (
    <form
      className={over ? 'composer over' : 'composer'}
      aria-label="Your message"
      onSubmit={(event) => {
        event.preventDefault();
        say();
      }}
      onDragOver={drag}
      onDragLeave={drag}
      onDrop={drag}
    >
      {pictures.length > 0 && (
        <ul className="pictures" aria-label="Images of this message">
          {pictures.map((picture, index) => (
            <li key={index}>
              <img src={picture.dataUrl} alt={picture.name} />
              <button
                type="button"
                className="picture-remove"
                aria-label={`Remove ${picture.name}`}
                onClick={() => setPictures(pictures.filter((one) => one !== picture))}
              >
                <Icon name="close" size={12} />
              </button>
            </li>
          ))}
        </ul>
      )}
      <textarea
        ref={ref}
        className="composer-text"
        rows={2}
        aria-label="Message"
        aria-describedby={hint}
        value={text}
        placeholder={over ? 'Drop images here' : `Message ${modelName}`}
        onChange={(event) => setText(event.target.value)}
        onPaste={(event) => {
          const images = imageFiles(event.clipboardData);
          if (images.length === 0) return;
          event.preventDefault();
          add(images);
        }}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          say();
        }}
      />
      {problem !== null && (
        <p className="field-error" role="alert">
          {problem}
        </p>
      )}
      <div className="composer-foot">
        <input
          ref={files}
          type="file"
          hidden
          multiple
          accept={PICTURE_TYPES}
          aria-label="Choose images"
          onChange={(event) => {
            add([...(event.target.files ?? [])]);
            event.target.value = '';
          }}
        />
        <button
          type="button"
          className="icon-button"
          aria-label={sees ? 'Add images' : `Add images: ${model} accepts text only`}
          disabled={!sees}
          title={sees ? 'Add images: choose, drop or paste' : `${model} accepts text only`}
          onClick={() => files.current?.click()}
        >
          <Icon name="image" />
        </button>
        <p className="hint" id={hint}>
          {blocked ??
            (running
              ? 'Esc stops the response'
              : `Enter sends, Shift+Enter inserts a line break.${sees ? ' Images can be dropped or pasted.' : ''}`)}
        </p>
        {running ? (
          <Button variant="secondary" onClick={onStop}>
            <Icon name="stop" /> Stop
          </Button>
        ) : (
          <Button type="submit" variant="primary" disabled={empty || blocked !== null}>
            Send
          </Button>
        )}
      </div>
    </form>
  );
}
