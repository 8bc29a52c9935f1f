// A QR code. The encoder is loaded when the first code is shown.
import { useEffect, useState } from 'react';
import type { ReactNode } from 'react';

/** One path of unit squares, including the quiet zone of four units that scanners require. */
function pathOf(rows: readonly (readonly boolean[])[]): string {
  return rows.flatMap((row, y) => row.flatMap((dark, x) => (dark ? [`M${x} ${y}h1v1h-1z`] : []))).join('');
}

export function QrCode({ text, label }: { text: string; label: string }): ReactNode {
  const [code, setCode] = useState<{ size: number; path: string } | null>(null);
  useEffect(() => {
    let shown = true;
    import('uqr').then(
      ({ encode }) => {
        const { size, data } = encode(text, { border: 4, ecc: 'M' });
        if (shown) setCode({ size, path: pathOf(data) });
      },
      () => undefined,
    ); // without a QR code, the secret is still shown as text
    return () => {
      shown = false;
    };
  }, [text]);
  if (code === null) return <div className="qr-code" aria-hidden="true" />;
  return (
    <svg
      className="qr-code"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${code.size} ${code.size}`}
      shapeRendering="crispEdges"
    >
      <path d={code.path} />
    </svg>
  );
}
