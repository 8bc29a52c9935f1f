// Tabs that follow the ARIA tabs pattern: arrow keys move the selection, and the panel follows.
import { useEffect, useId, useRef } from 'react';
import type { KeyboardEvent, ReactNode } from 'react';

export interface Tab<V extends string> {
  value: V;
  label: string;
  content: ReactNode;
}

export function Tabs<V extends string>({
  label,
  tabs,
  value,
  onChange,
}: {
  label: string;
  tabs: readonly Tab<V>[];
  value: V;
  onChange: (value: V) => void;
}): ReactNode {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const current = Math.max(
    0,
    tabs.findIndex((tab) => tab.value === value),
  );
  const onKeyDown = (event: KeyboardEvent): void => {
    const step: Record<string, number> = {
      ArrowRight: current + 1,
      ArrowLeft: current - 1,
      Home: 0,
      End: tabs.length - 1,
    };
    const to = step[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const index = (to + tabs.length) % tabs.length;
    const tab = tabs[index];
    if (tab === undefined) return;
    onChange(tab.value);
    list.current?.querySelectorAll<HTMLButtonElement>('[role=tab]')[index]?.focus();
  };
  // On phones, the list of tabs scrolls sideways. The page itself must not scroll with it.
  useEffect(() => {
    const element = list.current;
    const tab = element?.querySelectorAll<HTMLButtonElement>('[role=tab]')[current];
    if (element == null || tab === undefined) return;
    const start = tab.offsetLeft - element.offsetLeft;
    const end = start + tab.offsetWidth - element.clientWidth;
    element.scrollLeft = Math.max(end, Math.min(start, element.scrollLeft));
  }, [current]);
  return (
    <div className="tabs">
      <div className="tab-list" role="tablist" aria-label={label} ref={list} onKeyDown={onKeyDown}>
        {tabs.map((tab, index) => (
          <button
            key={tab.value}
            type="button"
            role="tab"
            id={`${id}-${tab.value}`}
            aria-selected={index === current}
            aria-controls={`${id}-panel`}
            tabIndex={index === current ? 0 : -1}
            onClick={() => onChange(tab.value)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div
        role="tabpanel"
        className="tab-panel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${tabs[current]?.value ?? ''}`}
      >
        {tabs[current]?.content}
      </div>
    </div>
  );
}

/** A single choice among a few options in one row, such as ranges, buckets or themes. */
export function Segmented<V extends string>({
  label,
  options,
  value,
  onChange,
}: {
  label: string;
  options: readonly { value: V; label: ReactNode; name?: string }[];
  value: V;
  onChange: (value: V) => void;
}): ReactNode {
  const id = useId();
  return (
    <div className="segmented" role="radiogroup" aria-label={label}>
      {options.map((option) => (
        <label key={option.value} className={option.value === value ? 'on' : undefined}>
          <input
            type="radio"
            name={id}
            value={option.value}
            checked={option.value === value}
            aria-label={option.name}
            onChange={() => onChange(option.value)}
          />
          <span>{option.label}</span>
        </label>
      ))}
    </div>
  );
}
