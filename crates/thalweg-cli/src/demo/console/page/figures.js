// Formats numbers.

export const figure = (number, digits = 0) =>
  number === null || number === undefined || !Number.isFinite(number) ? "–" : number.toFixed(digits);

export function rate(bps) {
  if (bps >= 1e6) return `${figure(bps / 1e6, bps % 1e6 === 0 ? 0 : 1)} Mbit/s`;
  return `${figure(bps / 1e3)} kbit/s`;
}

export function size(bytes) {
  if (bytes >= 1e6) return `${figure(bytes / 1e6, 1)} MB`;
  return `${figure(bytes / 1e3)} kB`;
}
