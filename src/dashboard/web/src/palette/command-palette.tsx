// The command palette: a search field over pages, actions, models, keys, organizations and request IDs. It follows the
// ARIA combobox pattern: the focus stays in the field, and the arrow keys move the active option.
import { useEffect, useId, useMemo, useRef, useState } from 'react';
import type { KeyboardEvent, ReactNode } from 'react';
import { Icon } from '../components/icon.js';
import { plural } from '../format.js';
import { findItems } from './find.js';
import type { PaletteItem } from './find.js';
import { usePaletteItems } from './use-palette-items.js';

const PAGE = 8;

/** Opens on Ctrl-K and Cmd-K, unless another dialog is open. */
export function usePaletteKey(open: () => void): void {
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey)
        return;
      event.preventDefault();
      if (document.querySelector('dialog[open]') === null) open();
    };
    window.addEventListener('keydown', onKey);
    return () => window.removeEventListener('keydown', onKey);
  }, [open]);
}

/** "⌘K" on a Mac, "Ctrl K" elsewhere. */
export const paletteKey = (): string => (/mac|iphone|ipad/i.test(navigator.platform) ? '⌘K' : 'Ctrl K');

export function CommandPalette({ onClose }: { onClose: () => void }): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const [text, setText] = useState('');
  const [active, setActive] = useState(0);
  const id = useId();
  const { items, loading } = usePaletteItems(text);
  const found = useMemo(() => findItems(items, text), [items, text]);
  const current = Math.min(active, found.length - 1);

  useEffect(() => {
    const element = dialog.current;
    if (element === null || element.open) return undefined;
    const before = document.activeElement;
    element.showModal();
    element.querySelector('input')?.focus();
    return () => {
      element.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [current, found]);

  const choose = (item: PaletteItem | undefined): void => {
    if (item === undefined) return;
    onClose();
    item.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const last = found.length - 1;
    const to: Record<string, number> = {
      ArrowDown: current >= last ? 0 : current + 1,
      ArrowUp: current <= 0 ? last : current - 1,
      PageDown: Math.min(last, current + PAGE),
      PageUp: Math.max(0, current - PAGE),
    };
    if (event.key === 'Enter') {
      event.preventDefault();
      if (!event.nativeEvent.isComposing) choose(found[current]);
    } else if (to[event.key] !== undefined) {
      event.preventDefault();
      setActive(to[event.key] ?? 0);
    }
  };
  return (
    <dialog
      ref={dialog}
      className="palette"
      aria-label="Command palette"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === event.currentTarget) onClose();
      }}
    >
      <div className="palette-field">
        <Icon name="search" size={18} />
        <input
          role="combobox"
          aria-label="Search pages, models, keys and requests"
          aria-expanded="true"
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          aria-activedescendant={found[current] === undefined ? undefined : `${id}-${current}`}
          placeholder="Search pages, models, keys, request IDs"
          autoComplete="off"
          spellCheck={false}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setActive(0);
          }}
          onKeyDown={onKeyDown}
        />
        <button type="button" className="icon-button" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <div className="palette-list" role="listbox" id={`${id}-list`} aria-label="Results" ref={list} tabIndex={-1}>
        {grouped(found).map(({ group, from, items: own }) => (
          <div key={group} role="group" aria-label={group}>
            <div className="palette-group" aria-hidden="true">
              {group}
            </div>
            {own.map((item, index) => {
              const at = from + index;
              return (
                <div
                  key={item.id}
                  id={`${id}-${at}`}
                  role="option"
                  aria-selected={at === current}
                  className="palette-item"
                  onMouseMove={() => setActive(at)}
                  onClick={() => choose(item)}
                >
                  <span className="palette-label">{item.label}</span>
                  {item.hint !== undefined && <span className="palette-hint">{item.hint}</span>}
                </div>
              );
            })}
          </div>
        ))}
      </div>
      {found.length === 0 && <p className="palette-none muted">{loading ? 'Loading …' : 'Nothing matches.'}</p>}
      <p className="visually-hidden" role="status">
        {text === '' ? '' : plural(found.length, 'result')}
      </p>
      <p className="palette-foot" aria-hidden="true">
        <kbd>↑</kbd> <kbd>↓</kbd> choose <kbd>Enter</kbd> open <kbd>Esc</kbd> close
      </p>
    </dialog>
  );
}

function grouped(found: readonly PaletteItem[]): { group: string; from: number; items: PaletteItem[] }[] {
  const groups: { group: string; from: number; items: PaletteItem[] }[] = [];
  found.forEach((item, at) => {
    const last = groups.at(-1);
    if (last?.group === item.group) last.items.push(item);
    else groups.push({ group: item.group, from: at, items: [item] });
  });
  return groups;
}
