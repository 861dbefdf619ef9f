// Large cities, to say in words where something is: name, latitude, longitude. To a tenth of a
// degree, from general knowledge; the base map has no place names of its own.
const CITIES = [
  ["New York", 40.7, -74.0], ["Los Angeles", 34.05, -118.25], ["Chicago", 41.88, -87.63], ["Houston", 29.76, -95.37],
  ["Phoenix", 33.45, -112.07], ["Philadelphia", 39.95, -75.17], ["San Antonio", 29.42, -98.49], ["San Diego", 32.72, -117.16],
  ["Dallas", 32.78, -96.8], ["Austin", 30.27, -97.74], ["Jacksonville", 30.33, -81.66], ["San Jose", 37.34, -121.89],
  ["Columbus", 39.96, -83.0], ["Charlotte", 35.23, -80.84], ["Indianapolis", 39.77, -86.16], ["San Francisco", 37.77, -122.42],
  ["Seattle", 47.61, -122.33], ["Denver", 39.74, -104.99], ["Oklahoma City", 35.47, -97.52], ["Nashville", 36.16, -86.78],
  ["El Paso", 31.76, -106.49], ["Washington", 38.9, -77.04], ["Boston", 42.36, -71.06], ["Las Vegas", 36.17, -115.14],
  ["Portland", 45.52, -122.68], ["Detroit", 42.33, -83.05], ["Louisville", 38.25, -85.76], ["Memphis", 35.15, -90.05],
  ["Baltimore", 39.29, -76.61], ["Milwaukee", 43.04, -87.91], ["Albuquerque", 35.08, -106.65], ["Tucson", 32.22, -110.97],
  ["Fresno", 36.74, -119.78], ["Sacramento", 38.58, -121.49], ["Kansas City", 39.1, -94.58], ["Atlanta", 33.75, -84.39],
  ["Omaha", 41.26, -95.94], ["Colorado Springs", 38.83, -104.82], ["Raleigh", 35.78, -78.64], ["Miami", 25.76, -80.19],
  ["Minneapolis", 44.98, -93.27], ["Tampa", 27.95, -82.46], ["Tulsa", 36.15, -95.99], ["New Orleans", 29.95, -90.07],
  ["Wichita", 37.69, -97.34], ["Cleveland", 41.5, -81.69], ["Pittsburgh", 40.44, -80.0], ["Cincinnati", 39.1, -84.51],
  ["St. Louis", 38.63, -90.2], ["Orlando", 28.54, -81.38], ["Boise", 43.62, -116.2], ["Salt Lake City", 40.76, -111.89],
  ["Richmond", 37.54, -77.44], ["Des Moines", 41.59, -93.62], ["Spokane", 47.66, -117.43], ["Birmingham", 33.52, -86.8],
  ["Buffalo", 42.89, -78.88], ["Anchorage", 61.22, -149.9], ["Honolulu", 21.31, -157.86], ["Billings", 45.78, -108.5],
  ["Sioux Falls", 43.55, -96.73], ["Fargo", 46.88, -96.79], ["Little Rock", 34.75, -92.29], ["Jackson", 32.3, -90.18],
  ["Charleston", 32.78, -79.93], ["Portland, Maine", 43.66, -70.26], ["Albany", 42.65, -73.75], ["Reno", 39.53, -119.81],
  ["Amarillo", 35.19, -101.83], ["Lubbock", 33.58, -101.86], ["Cheyenne", 41.14, -104.82], ["Knoxville", 35.96, -83.92],
  ["Adak", 51.88, -176.66], ["Toronto", 43.65, -79.38], ["Montreal", 45.5, -73.57], ["Vancouver", 49.28, -123.12],
  ["Calgary", 51.05, -114.07], ["Winnipeg", 49.9, -97.14], ["Halifax", 44.65, -63.57], ["Mexico City", 19.43, -99.13],
  ["Monterrey", 25.69, -100.32], ["Guadalajara", 20.67, -103.35], ["Bogotá", 4.71, -74.07], ["Lima", -12.05, -77.04],
  ["São Paulo", -23.55, -46.63], ["Rio de Janeiro", -22.91, -43.17], ["Buenos Aires", -34.6, -58.38], ["Santiago", -33.45, -70.67],
  ["London", 51.51, -0.13], ["Manchester", 53.48, -2.24], ["Glasgow", 55.86, -4.25], ["Dublin", 53.35, -6.26],
  ["Paris", 48.86, 2.35], ["Lyon", 45.76, 4.84], ["Marseille", 43.3, 5.37], ["Madrid", 40.42, -3.7],
  ["Barcelona", 41.39, 2.17], ["Lisbon", 38.72, -9.14], ["Brussels", 50.85, 4.35], ["Amsterdam", 52.37, 4.9],
  ["Berlin", 52.52, 13.4], ["Hamburg", 53.55, 9.99], ["Munich", 48.14, 11.58], ["Frankfurt", 50.11, 8.68],
  ["Cologne", 50.94, 6.96], ["Zurich", 47.38, 8.54], ["Vienna", 48.21, 16.37], ["Prague", 50.08, 14.44],
  ["Warsaw", 52.23, 21.01], ["Budapest", 47.5, 19.04], ["Rome", 41.9, 12.5], ["Milan", 45.46, 9.19],
  ["Athens", 37.98, 23.73], ["Copenhagen", 55.68, 12.57], ["Stockholm", 59.33, 18.07], ["Oslo", 59.91, 10.75],
  ["Helsinki", 60.17, 24.94], ["Bucharest", 44.43, 26.1], ["Istanbul", 41.01, 28.98], ["Kyiv", 50.45, 30.52],
  ["Cairo", 30.04, 31.24], ["Lagos", 6.52, 3.38], ["Nairobi", -1.29, 36.82], ["Johannesburg", -26.2, 28.05],
  ["Cape Town", -33.92, 18.42], ["Dubai", 25.2, 55.27], ["Riyadh", 24.71, 46.68], ["Delhi", 28.61, 77.21],
  ["Mumbai", 19.08, 72.88], ["Bengaluru", 12.97, 77.59], ["Singapore", 1.35, 103.82], ["Bangkok", 13.76, 100.5],
  ["Jakarta", -6.21, 106.85], ["Manila", 14.6, 120.98], ["Hong Kong", 22.32, 114.17], ["Shanghai", 31.23, 121.47],
  ["Beijing", 39.9, 116.41], ["Seoul", 37.57, 126.98], ["Tokyo", 35.68, 139.69], ["Osaka", 34.69, 135.5],
  ["Sydney", -33.87, 151.21], ["Melbourne", -37.81, 144.96], ["Brisbane", -27.47, 153.03], ["Perth", -31.95, 115.86],
  ["Auckland", -36.85, 174.76], ["Wellington", -41.29, 174.78], ["Suva", -18.14, 178.44],
];

const BEARINGS = ["N", "NE", "E", "SE", "S", "SW", "W", "NW"];
const RADIANS = Math.PI / 180;

export function nearestCity(latitude, longitude) {
  let best = null;
  for (const [name, cityLatitude, cityLongitude] of CITIES) {
    const north = (latitude - cityLatitude) * 111.2;
    let degrees = longitude - cityLongitude;
    if (degrees > 180) degrees -= 360;
    if (degrees < -180) degrees += 360;
    const east = degrees * 111.2 * Math.cos(latitude * RADIANS);
    const km = Math.hypot(north, east);
    if (!best || km < best.km) best = { name, km, east, north };
  }
  const angle = Math.round(Math.atan2(best.east, best.north) / RADIANS / 45 + 8) % 8;
  return { name: best.name, km: best.km, bearing: BEARINGS[angle] };
}

export const cityPoints = () =>
  CITIES.map(([name, latitude, longitude], rank) => ({
    type: "Feature",
    properties: { name, rank },
    geometry: { type: "Point", coordinates: [longitude, latitude] },
  }));
